"""For array-api-tests: leaves out the special cases of complex numbers, which
that suite makes of the standard's text whether a library has them or not."""


def pytest_collection_modifyitems(config, items):
    left = [item for item in items if is_complex(item)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not is_complex(item)]


def is_complex(item):
    call = getattr(item, 'callspec', None)
    return any(getattr(value, 'is_complex', False)
               for value in (call.params.values() if call else ()))

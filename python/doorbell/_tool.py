"""The program `doorbell`, which python -m doorbell is."""
import os
import shutil
import sysconfig


def find_tool() -> str:
    """The path of the program: $DOORBELL, the package's own, that of this
    interpreter's scripts, the one in $PATH, or a build's beside the package."""
    here = os.path.dirname(os.path.abspath(__file__))
    for path in (os.environ.get('DOORBELL'),
                 os.path.join(here, 'doorbell'),
                 os.path.join(sysconfig.get_path('scripts'), 'doorbell'),
                 shutil.which('doorbell'),
                 os.path.join(here, '..', '..', 'tools', 'doorbell')):
        if path and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise FileNotFoundError(
        'the program doorbell is not installed: build it from the sources, or '
        'install the Debian package doorbell; $DOORBELL may name it')

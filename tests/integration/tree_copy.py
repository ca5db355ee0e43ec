"""A copy of the tree and of its build, in which ninja makes anew what is
changed there and no more."""
import os
import shutil
import subprocess


def copy(source, build, root, tests=(), options=()):
    """Copies both to `root` and configures the copied build again, with
    `options`. Of the build's tests it has those named. Returns its path; None:
    the build is not in a folder of the tree, so it cannot be moved with it."""
    source, build = os.path.realpath(source), os.path.realpath(build)
    inside = os.path.relpath(build, source)
    if inside.startswith('..'):
        return None

    def ignore(folder, names):
        return [name for name in names
                if folder == source and (name == '.git' or
                                         name.startswith('build'))
                or folder == f'{build}/tests' and name not in tests
                or folder == build and name == 'meson-logs']

    shutil.copytree(source, root, ignore=ignore, symlinks=True,
                    dirs_exist_ok=True)
    copied = os.path.join(root, inside)
    shutil.copytree(build, copied, ignore=ignore, symlinks=True)
    subprocess.run(['meson', 'setup', '--reconfigure', copied, root, *options],
                   stdout=subprocess.DEVNULL, check=True)
    return copied

"""python -m doorbell VERB: the program `doorbell`."""
import os
import sys

from doorbell._tool import find_tool


def main() -> None:
    try:
        tool = find_tool()
    except FileNotFoundError as error:
        sys.exit(f'python -m doorbell: {error}')
    sys.stdout.flush()
    os.execv(tool, ['doorbell', *sys.argv[1:]])


if __name__ == '__main__':
    main()

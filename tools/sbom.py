#!/usr/bin/env python3
"""What the library is made of and needs, as an SPDX 2.3 document.

usage: sbom.py VERSION COMMIT OUT [NAME=VERSION:LICENCE:RELATION ...]

RELATION: `linked` for libraries that it is linked with, `loaded` for those that
it opens when something asks for them, `tool` for what builds it. The time is
that of SOURCE_DATE_EPOCH, or else of the commit: the same tree gives the same
document. Standard library only.
"""
import hashlib
import json
import os
import subprocess
import sys
import time

RELATIONS = {'linked': ('DEPENDS_ON', True), 'loaded': ('OPTIONAL_DEPENDENCY_OF', False),
             'tool': ('BUILD_TOOL_OF', False)}


def commit_time(folder):
    given = os.environ.get('SOURCE_DATE_EPOCH')
    if given:
        return int(given)
    done = subprocess.run(['git', '-C', folder, 'log', '-1', '--format=%ct'],
                          capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 and done.stdout else 0


def package(name, version, licence):
    return {
        'SPDXID': f'SPDXRef-{name}',
        'name': name,
        'versionInfo': version,
        'licenseConcluded': 'NOASSERTION',
        'licenseDeclared': licence,
        'copyrightText': 'NOASSERTION',
        'downloadLocation': 'NOASSERTION',
        'filesAnalyzed': False,
    }


def main():
    version, commit, out = sys.argv[1:4]
    packages = [package('doorbell', version, 'MIT')]
    packages[0]['sourceInfo'] = f'commit {commit}'
    relations = [{'spdxElementId': 'SPDXRef-DOCUMENT',
                  'relationshipType': 'DESCRIBES',
                  'relatedSpdxElement': 'SPDXRef-doorbell'}]
    for text in sys.argv[4:]:
        name, rest = text.split('=', 1)
        found, licence, relation = rest.split(':')
        packages.append(package(name, found, licence))
        kind, is_ours = RELATIONS[relation]
        ends = ['SPDXRef-doorbell', f'SPDXRef-{name}']
        if not is_ours:
            ends.reverse()
        relations.append({'spdxElementId': ends[0], 'relationshipType': kind,
                          'relatedSpdxElement': ends[1]})
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
    key = hashlib.sha256(json.dumps([packages, relations]).encode()).hexdigest()
    document = {
        'spdxVersion': 'SPDX-2.3',
        'dataLicense': 'CC0-1.0',
        'SPDXID': 'SPDXRef-DOCUMENT',
        'name': f'doorbell-{version}',
        'documentNamespace': f'https://spdx.invalid/doorbell-{version}-{key}',
        'creationInfo': {
            'created': time.strftime('%Y-%m-%dT%H:%M:%SZ',
                                     time.gmtime(commit_time(root))),
            'creators': ['Tool: doorbell-sbom.py'],
        },
        'packages': packages,
        'relationships': relations,
    }
    with open(out, 'w', encoding='utf-8') as file:
        json.dump(document, file, indent=2)
        file.write('\n')


if __name__ == '__main__':
    main()

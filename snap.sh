#!/bin/bash
# snapshot of HEAD + my dirty files in /tmp/mine/wt
set -e
rm -rf /tmp/mine/wt; mkdir -p /tmp/mine/wt
cd /work/main; git archive HEAD | tar -x -C /tmp/mine/wt
for f in $(git ls-files -m -o --exclude-standard tests/faults/test_points.py tests/faults/test_points_apart.py tests/faults/test_failpoints.py tests/faults/test_kills.py tests/faults/test_connections.py tests/faults/rig tests/faults/test_terminated.py tests/faults/test_hosts.py tests/faults/planted "$@"); do mkdir -p /tmp/mine/wt/$(dirname $f); cp $f /tmp/mine/wt/$f; done
cd /tmp/mine/wt; git -C /work/main log --oneline | head -1

#!/bin/sh
# A backup by the shell: copies a SQLite database while it is in use, checks the copy, and keeps the newest seven.
#
#   mainspring up --allow-shell
#   mainspring job add backup --schedule 'every day at 3:00' --tz Europe/Berlin --timeout 1h --retries 3 \
#       --overlap skip --no-retry-on 'exit 64-78' --command '["/opt/shop/backup.sh", "/srv/shop.db", "/backup"]'
#
# Exit codes from 64 to 78 say that trying again is of no use: a wrong argument, a missing database.
set -eu
database=${1:?} folder=${2:?}
[ -f "$database" ] || { echo "there is no database $database" >&2; exit 66; }
mkdir -p "$folder"
copy="$folder/$(basename "$database").$(date -u +%Y%m%dT%H%M%SZ).$MAINSPRING_RUN_ID"
trap 'rm -f "$copy.part"' EXIT
python3 - "$database" "$copy.part" <<'PYTHON'
import sqlite3
import sys

source, target = sqlite3.connect(sys.argv[1]), sqlite3.connect(sys.argv[2])
source.backup(target)
(told,) = target.execute("PRAGMA integrity_check").fetchone()
sys.exit(0 if told == "ok" else f"the copy is damaged: {told}")
PYTHON
mv "$copy.part" "$copy"
ls -1 "$folder/$(basename "$database")".*Z.* | sort -r | tail -n +8 | xargs -r rm --
echo "kept $copy"

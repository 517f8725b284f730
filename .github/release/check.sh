#!/usr/bin/env bash
# Fails unless the tag (`v0.1.0`) and all manifests name one version, and the changelog has the date of its release.
# usage: check.sh TAG
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

version=${1#v}
problems=0

# One manifest, and the version that it names.
expect() {
    [ "$2" = "$version" ] && return
    echo "$1 has the version $2, and the tag $version" >&2
    problems=1
}

for manifest in Cargo.toml capture/Cargo.toml facts/Cargo.toml mcp/Cargo.toml python/Cargo.toml scan/Cargo.toml server/Cargo.toml; do
    expect "$manifest" "$(sed -n 's/^version = "\(.*\)"/\1/p' "$manifest" | head -n 1)"
done
for manifest in npm/package.json vscode/package.json .claude-plugin/plugin.json server.json; do
    expect "$manifest" "$(sed -n 's/^  "version": "\(.*\)",/\1/p' "$manifest")"
done
expect 'the image in server.json' "$(sed -n 's/.*"identifier": ".*:\(.*\)",/\1/p' server.json)"
if ! grep -qE "^## \[$version\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md; then
    echo "CHANGELOG.md has no line '## [$version] - YYYY-MM-DD'" >&2
    problems=1
fi
exit "$problems"

#!/usr/bin/env bash
# Packs a built program for people who download it: the program, its manual pages and completions, license and readme.
# usage: archive.sh PROGRAM TARGET VERSION OUT
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

program=$1 target=$2 version=$3 out=$4
name=gpuprism-$version-$target
folder=$out/$name

mkdir -p "$folder/completions"
cp "$program" LICENSE README.md CHANGELOG.md "$folder"
"$program" man "$folder/man"
for shell in bash elvish fish powershell zsh; do
    "$program" completions "$shell" > "$folder/completions/gpuprism.$shell"
done
cd "$out"
case $target in
    *windows*) 7z a -bso0 "$name.zip" "$name" ;;
    *) tar --create --gzip --file "$name.tar.gz" "$name" ;;
esac
rm -r "$name"

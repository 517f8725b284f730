#!/usr/bin/env bash
# Prints the Homebrew formula of a release, from its checksums.
# usage: formula.sh REPOSITORY VERSION SHA256SUMS
set -euo pipefail

repository=$1 version=$2 sums=$3

sum() {
    awk -v name="gpuprism-$version-$1.tar.gz" '$2 == name { print $1; found = 1 } END { exit !found }' "$sums"
}

# The lines of one archive.
archive() {
    printf '      url "https://github.com/%s/releases/download/v%s/gpuprism-%s-%s.tar.gz"\n' "$repository" "$version" "$version" "$1"
    printf '      sha256 "%s"\n' "$(sum "$1")"
}

for target in aarch64-apple-darwin x86_64-apple-darwin aarch64-unknown-linux-musl x86_64-unknown-linux-musl; do
    sum "$target" > /dev/null || { echo "$sums has no archive for $target" >&2; exit 1; }
done

cat << FORMULA
class Gpuprism < Formula
  desc "Says where the GPU time of an LLM server went"
  homepage "https://github.com/$repository"
  version "$version"
  license "Apache-2.0"

  on_macos do
    on_arm do
$(archive aarch64-apple-darwin)
    end
    on_intel do
$(archive x86_64-apple-darwin)
    end
  end

  on_linux do
    on_arm do
$(archive aarch64-unknown-linux-musl)
    end
    on_intel do
$(archive x86_64-unknown-linux-musl)
    end
  end

  def install
    bin.install "gpuprism"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/gpuprism.bash" => "gpuprism"
    zsh_completion.install "completions/gpuprism.zsh" => "_gpuprism"
    fish_completion.install "completions/gpuprism.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/gpuprism --version")
  end
end
FORMULA

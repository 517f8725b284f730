#!/usr/bin/env bash
# The script of action.yml: compares BEFORE and AFTER, writes the comparison to the summary of the job, and ends with the exit code of
# `gpuprism diff`. Takes its input from the environment, as action.yml sets it; without GitHub's variables it prints the comparison.
set -euo pipefail

# Finds the comment of an earlier run.
MARK='<!-- gpuprism diff -->'
# GitHub takes comments of up to 65,536 characters.
MAX_COMMENT_BYTES=60000

work=$(mktemp -d "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/gpuprism.XXXXXX")
comparison=$work/comparison.md

find_program() {
    command -v "$GPUPRISM" > /dev/null && return
    echo "There is no program $GPUPRISM: building it from $SOURCE"
    cargo install --quiet --locked --path "$SOURCE" --root "$work/program"
    GPUPRISM=$work/program/bin/gpuprism
}

# Writes the comparison, or why there is none, and sets the exit code of the job.
compare() {
    local options=()
    [ "$REDACT" = true ] && options+=(--redact)
    "$GPUPRISM" diff --exit-on-regression "$REGRESSION_PERCENT" --format markdown --out "$comparison" \
        ${options[@]+"${options[@]}"} -- "$BEFORE" "$AFTER" 2> "$work/errors" || status=$?
    cat "$work/errors" >&2
    if [ ! -s "$comparison" ]; then
        { echo '# Comparison'; echo; sed 's/^/    /' "$work/errors"; } > "$comparison"
    fi
}

# The comparison as a comment: whole lines, as many as fit.
write_comment() {
    echo "$MARK"
    awk -v room="$MAX_COMMENT_BYTES" '{ room -= length($0) + 1 } room < 0 { print "\nThe summary of the job has the rest."; exit } { print }' "$comparison"
}

# Replaces the comment of an earlier run.
comment() {
    local comments="repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments" id
    write_comment > "$work/comment.md"
    id=$(gh api --paginate "$comments" --jq ".[] | select(.user.type == \"Bot\" and (.body | startswith(\"$MARK\"))) | .id" | head -n 1)
    if [ -n "$id" ]; then
        gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id" --field "body=@$work/comment.md"
    else
        gh api --silent --method POST "$comments" --field "body=@$work/comment.md"
    fi
}

status=0
find_program
compare
cat "$comparison" >> "${GITHUB_STEP_SUMMARY:-/dev/stdout}"
printf '%s\n' "status=$status" "comparison=$comparison" >> "${GITHUB_OUTPUT:-/dev/null}"
if [ "$COMMENT" = true ] && [ -n "${PULL_REQUEST:-}" ]; then
    comment || echo '::warning::The comment could not be written: the job needs the permission pull-requests: write'
fi
case $status in
    0) ;;
    3) echo "::error::gpuprism: slower than the baseline by more than $REGRESSION_PERCENT %: see the summary of the job" ;;
    4) echo '::error::gpuprism: the runs cannot be compared: see the summary of the job' ;;
    *) echo '::error::gpuprism: no comparison: see the log' ;;
esac
exit "$status"

#!/usr/bin/env bash
# links_test.sh [FOLDER]: checks the pages of the sources (or of FOLDER):
#   - the target of every relative link exists, with the heading that the link names;
#   - for every `folder/file.h` in a page, the path of a file ends with this name. This check leaves out pages that describe
#     older trees (CHANGELOG.md, docs/reports, docs/adr), docs/plan.md, and pages whose files the reader makes
#     (docs/adding-*.md, docs/embedding.md);
#   - a page of docs/ has at most 250 lines, not counting diffs, so that people read the page. recipe-reference.md, which the
#     program writes, is exempt.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/../..}"

mapfile -t pages < <(find . -name '*.md' -not -path './build/*' -not -path './.git/*' -not -path './runs/*' | sed 's#^\./##' | sort)
[ ${#pages[@]} -gt 0 ] || { echo "no pages in $PWD"; exit 1; }
files=$(find . -type f -not -path './build/*' -not -path './.git/*' | sed 's#^\.##')
found=$(awk -f "$here/links.awk" "${pages[@]}")
declare -A anchors
while IFS=$'\t' read -r kind page anchor; do
  [ "$kind" != anchor ] || anchors["$page#$anchor"]=1
done <<<"$found"

bad=0 links=0 names=0
complain() { echo "$1" && bad=1; }
while IFS=$'\t' read -r kind page line target; do
  case $kind in
  link)
    links=$((links + 1))
    path=${target%%#*}
    if [ -n "$path" ]; then path=$(realpath -m --relative-to=. "$(dirname "$page")/$path"); else path=$page; fi
    if [ ! -e "$path" ]; then
      complain "$page:$line: $target: there is no $path"
    elif [[ $target == *#* && $path == *.md && -z ${anchors["$path#${target#*#}"]-} ]]; then
      complain "$page:$line: $target: $path has no such heading"
    fi
    ;;
  name)
    case $page in
    docs/reports/* | docs/adr/* | docs/adding-* | docs/embedding.md | docs/plan.md | CHANGELOG.md) continue ;;
    esac
    names=$((names + 1))
    grep -qE "/${target//./\\.}\$" <<<"$files" || complain "$page:$line: there is no file ...$target"
    ;;
  esac
done <<<"$found"
for page in docs/*.md; do
  [ "$page" != docs/recipe-reference.md ] || continue
  lines=$(sed '/^```diff$/,/^```$/d' "$page" | wc -l)  # diffs do not count, because tests apply them whole
  [ "$lines" -le 250 ] || complain "$page has $lines lines, expected at most 250; move tables of measurements to docs/reports"
done
echo "checked ${#pages[@]} pages, $links links, $names names of files"
exit $bad

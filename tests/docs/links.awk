# links.awk FILE.md...: prints TAB-separated lines for each page:
#   anchor FILE ANCHOR          a heading, as GitHub names it
#   link FILE LINE TARGET       a link within the sources, not to another host
#   name FILE LINE PATH         a file that the text names in backquotes: folder/file.extension
function slug(text) {
  gsub(/\[|\]\([^)]*\)/, "", text)  # keeps the text of a link
  text = tolower(text)
  gsub(/[^a-z0-9 _-]/, "", text)
  gsub(/ /, "-", text)
  return text
}
FNR == 1 { fenced = 0 }
/^ *```/ { fenced = !fenced; next }
fenced || /^    / && !/^    *([-*]|[0-9]+\.) / { next }
/^#+ / {
  heading = $0
  sub(/^#+ +/, "", heading)
  heading = slug(heading)
  print "anchor\t" FILENAME "\t" heading (seen[FILENAME, heading]++ ? "-" seen[FILENAME, heading] - 1 : "")
}
{
  rest = $0
  while (match(rest, /\]\([^) ]+\)/)) {
    target = substr(rest, RSTART + 2, RLENGTH - 3)
    if (target !~ /^[a-z]+:/) print "link\t" FILENAME "\t" FNR "\t" target
    rest = substr(rest, RSTART + RLENGTH)
  }
  rest = $0
  while (match(rest, /`[A-Za-z0-9_.-]+(\/[A-Za-z0-9_.-]+)+\.(h|cpp|cu|cuh|sh|py|awk|yaml|md|txt)`/)) {
    print "name\t" FILENAME "\t" FNR "\t" substr(rest, RSTART + 1, RLENGTH - 2)
    rest = substr(rest, RSTART + RLENGTH)
  }
}

#!/bin/bash
# Writes about 10 MB of English text as plain .txt files to FOLDER: the King James Bible, the six novels of Jane Austen,
# and the Jargon File. The texts come from Debian packages. Packages that are not installed are downloaded and unpacked
# to a temporary folder, which does not need root. The files depend only on the packages. A later run does nothing if
# the files are complete and unchanged.
set -euo pipefail

if [ $# -ne 1 ] || [[ $1 == -* ]]; then
  echo "usage: tools/corpus.sh FOLDER" >&2
  exit 2
fi
folder=$1
mkdir -p "$folder"
stamp=$folder/.complete  # hidden, so that 'hexad prepare' ignores it
if [ -f "$stamp" ] && (cd "$folder" && sha256sum --check --quiet .complete); then
  echo "corpus: $folder is complete, nothing to do"
  exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# locate PACKAGE FILE: prints the path of FILE. Downloads PACKAGE if FILE does not exist.
locate() {
  local package=$1 file=$2
  if [ -e "$file" ]; then
    echo "$file"
    return
  fi
  if [ ! -e "$work/root$file" ]; then
    echo "corpus: fetching $package" >&2
    (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download "$package" >&2 && dpkg-deb -x "$package"_*.deb root) || {
      echo "corpus: cannot download the Debian package $package; install it, or run 'apt-get update' as root and try again" >&2
      exit 4
    }
  fi
  echo "$work/root$file"
}

put() {  # put NAME: writes its standard input to FOLDER/NAME
  cat >"$work/text"
  mv "$work/text" "$folder/$1"
  echo "corpus: wrote $folder/$1 ($(stat -c %s "$folder/$1") bytes)"
}

# Writes the Bible. Each chapter heading is followed by one verse per line.
bible=$(locate bible-kjv /usr/bin/bible)
text=$(locate bible-kjv-text /usr/lib/bible.data)
"$bible" -p "$(dirname "$text")" -l100000 'gen1:1-rev22:21' </dev/null | sed 's/^ *//' | put bible-kjv.txt

# Writes the novels from an R database, which is a sequence of zlib streams. Each stream is preceded by its length (32
# bits, big-endian) and contains one serialised vector of lines: "X\n", versions and encoding, then type 16 (character
# vector) and the number of lines. Every line consists of a word of flags, a length (-1: missing) and the bytes.
novels=$(locate r-cran-janeaustenr /usr/lib/R/site-library/janeaustenr/data/Rdata.rdb)
perl -MCompress::Zlib -e '
  use strict; use warnings;
  my ($path, $out) = @ARGV;
  open(my $in, "<:raw", $path) or die "$path: $!\n";
  my $data = do { local $/; <$in> };
  for (my $at = 0; $at < length $data;) {
    my $inflater = inflateInit() or die "$path: zlib\n";
    my $rest = substr($data, $at + 4);
    my $before = length $rest;
    my ($raw, $status) = $inflater->inflate($rest);
    $status == Z_STREAM_END && length $raw == unpack("N", substr($data, $at, 4))
      or die "$path: damaged at byte $at\n";
    $at += 4 + $before - length $rest;
    my ($magic, undef, undef, undef, $name_length) = unpack("a2 N4", $raw);
    my $p = 18 + $name_length;
    my ($type, $count) = unpack("N2", substr($raw, $p, 8));
    $magic eq "X\n" && ($type & 255) == 16 or die "$path: not a character vector\n";
    $p += 8;
    my @lines;
    for (1 .. $count) {
      my (undef, $length) = unpack("N l>", substr($raw, $p, 8));
      $length = 0 if $length < 0;
      push @lines, substr($raw, $p + 8, $length);
      $p += 8 + $length;
    }
    my $title = lc $lines[0];
    $title =~ s/[^a-z]+/-/g;
    open(my $file, ">:raw", "$out/austen-$title.txt") or die "$out: $!\n";
    print $file join("\n", @lines), "\n";
    close $file or die "$out: $!\n";
  }' "$novels" "$work"
for novel in "$work"/austen-*.txt; do
  put "$(basename "$novel")" <"$novel"
done

# Writes the Jargon File without the horizontal rules of its tables.
jargon=$(locate jargon-text /usr/share/doc/jargon-text/jargon.txt.gz)
gunzip -c "$jargon" | LC_ALL=C.UTF-8 sed -E '/^[[:space:]─═│├┼┤┌┐└┘┬┴]*[─═][[:space:]─═│├┼┤┌┐└┘┬┴]*$/d' | put jargon.txt

(cd "$folder" && sha256sum -- *.txt >"$work/stamp")
mv "$work/stamp" "$stamp"
echo "corpus: $(cat "$folder"/*.txt | wc -c) bytes of text in $folder"

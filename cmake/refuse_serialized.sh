#!/bin/sh
# refuse_serialized.sh COMMAND...: runs the CUDA compiler, and fails where it made the slow code of which it only informs:
# products on tensor cores one after the other (C7510), as in CUTLASS without NDEBUG.
said=$("$@" 2>&1)
status=$?
[ -z "$said" ] || printf '%s\n' "$said" >&2
case $said in
*C7510*)
  echo 'error: products on tensor cores are serialized (C7510)' >&2
  exit 1
  ;;
esac
exit $status

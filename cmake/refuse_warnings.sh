#!/bin/sh
# refuse_warnings.sh COMMAND...: runs the CUDA compiler, and fails where one of its programs (nvcc, cudafe++, ptxas, nvlink) warned, or
# made the slow code of which it only informs: products on tensor cores one after the other (C7510), as in CUTLASS without NDEBUG.
said=$("$@" 2>&1)
status=$?
[ -z "$said" ] || printf '%s\n' "$said" >&2
[ $status -eq 0 ] || exit $status
case $said in
*C7510*)
  echo 'error: products on tensor cores are serialized (C7510)' >&2
  exit 1
  ;;
*[Ww]arning*)
  echo 'error: warnings of the CUDA compiler are errors' >&2
  exit 1
  ;;
esac

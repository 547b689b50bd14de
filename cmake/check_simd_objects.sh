#!/bin/sh
# check_simd_objects.sh ISA OBJECT...: fails when an object compiled for one instruction set defines a symbol that the
# linker may use for code compiled for another: a weak one (an inline function or template), or one outside namespace
# ISA. DW.ref.* are pointers, the same in every object.
isa=$1
shift
bad=$(nm -C -o --defined-only --extern-only "$@" | grep -v ' DW\.ref\.' | grep -v " [TDBR] .*::$isa::")
[ -z "$bad" ] && exit 0
echo "symbols that other files could be linked to, in objects that need instruction set $isa:"
echo "$bad"
exit 1

// Implementations of context attention. Each implementation is in a file that is named after its kind. The caller must
// have checked the arguments. There must be at least two ranks.
#pragma once

#include "parallel/cp/context_attention.h"

namespace hexad::cp {

Value ring_attention(Tape& tape, const Value& q, const Value& k, const Value& v, const ContextAttention& c);
Value all_gather_attention(Tape& tape, const Value& q, const Value& k, const Value& v, const ContextAttention& c);
Value ulysses_attention(Tape& tape, const Value& q, const Value& k, const Value& v, const ContextAttention& c);

}  // namespace hexad::cp

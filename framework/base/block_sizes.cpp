#include "framework/base/block_sizes.h"

namespace hexad::base {
namespace {

constinit BlockSizes current;

}  // namespace

const BlockSizes& block_sizes() { return current; }

WithBlockSizes::WithBlockSizes(const BlockSizes& sizes) : before_(current) { current = sizes; }
WithBlockSizes::~WithBlockSizes() { current = before_; }

}  // namespace hexad::base

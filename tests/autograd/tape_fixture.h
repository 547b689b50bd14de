// Test fixture with a tape, and a small network.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "framework/autograd/ops/ops.h"
#include "tests/support/gradcheck.h"

namespace hexad::tests {

using namespace autograd;
using namespace kernels;

using Inputs = const std::vector<Value>&;
using Roots = std::vector<Replay::Root>;

/// Returns the message of the std::logic_error that `call` throws.
inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "no error";
}

/// Fixture with a tape that keeps saved tensors.
class TapeTest : public testing::Test {
 protected:
  Lab lab;
  std::unique_ptr<SavePolicy> policy = keep_policy();
  Tape tape{lab.stream(), *policy};
};

/// Small network whose parameters are the gain of a norm, two weights and a bias.
struct Network {
  explicit Network(Lab& lab)
      : gain(lab.parameter({4})),
        first(lab.parameter({6, 4})),
        bias(lab.parameter({6})),
        second(lab.parameter({4, 3})) {}
  Value operator()(Tape& t, const Value& x) const {
    const Value h = linear(t, rms_norm(t, x, gain, 1e-5), first, &bias);
    return add(t, x, linear(t, swiglu(t, h), second));
  }
  std::vector<Parameter*> all() const { return {&gain, &first, &bias, &second}; }
  Parameter &gain, &first, &bias, &second;
};

/// Returns copies of the gradients of all parameters.
inline std::vector<Tensor> gradients_of(const Network& n) {
  std::vector<Tensor> out;
  for (Parameter* p : n.all()) out.push_back(copy_of(p->gradient()));
  return out;
}

}  // namespace hexad::tests

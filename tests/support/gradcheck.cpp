#include "tests/support/gradcheck.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "framework/base/philox.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
namespace {

// Step h of the five-point formula (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h). The truncation error is
// about h^4 / 30 times the fifth derivative. The rounding error is about u * M / h, where u is the unit roundoff of f64
// and M is Loss::magnitude. The constant `truncation` omits the factor 1 / 30. It allows for a fifth derivative of 1e5
// times the slope, which can occur in a function of a few layers.
constexpr double step = 3e-4;
constexpr double truncation = 1e5 * step * step * step * step;
constexpr int64_t elementwise_limit = 200;

// Tensor whose elements are varied: an input or a parameter's weights.
struct Variable {
  std::string name;
  Tensor data;
  Tensor gradient;
  Parameter* parameter = nullptr;
};

class Gradcheck {
 public:
  Gradcheck(Lab& lab, const std::vector<Tensor>& inputs, const Function& f, const GradcheckOptions& options,
            std::source_location where)
      : lab_(lab), inputs_(inputs), f_(f), options_(options), where_(where) {}

  void run() {
    const auto [gradients, parameters] = analytic(Replay::Weights::at_once, {});
    const auto first = weight_gradients(parameters);
    check_delayed(gradients, parameters, first);
    check_second_adds(parameters, first);

    std::vector<Variable> variables;
    for (size_t i = 0; i < inputs_.size(); ++i)
      variables.push_back({cat("input ", i), inputs_[i], gradients[i], nullptr});
    for (size_t i = 0; i < parameters.size(); ++i)
      variables.push_back({cat("parameter ", parameters[i]->name()), parameters[i]->local(), first[i], parameters[i]});
    for (const Variable& v : variables) check(v);
  }

 private:
  struct Result {
    std::vector<Tensor> gradients;
    std::vector<Parameter*> parameters;  // each parameter once, in order of use
  };

  // Runs forward and backward. Parameters in `keep` keep the contents of their gradients. The other parameters start
  // from stale memory.
  Result analytic(Replay::Weights weights, const std::set<Parameter*>& keep) {
    const auto policy = keep_policy();
    Tape tape(lab_.stream(), *policy);
    std::vector<Value> leaves;
    for (const Tensor& t : inputs_) leaves.push_back(tape.leaf(t));
    for (const auto& p : lab_.parameters)
      if (!keep.contains(p.get())) make_stale(*p);
    const std::vector<Value> outs = f_(tape, leaves);
    const std::vector<Tensor> forgotten = forward();
    std::vector<Replay::Root> roots;
    for (size_t o = 0; o < outs.size(); ++o) {
      report(bitwise_difference(outs[o].data, forgotten[o], Zeros::expected), where_);
      roots.push_back({outs[o], direction(o, outs[o].data)});
    }
    std::vector<Parameter*> parameters;
    for (Parameter* p : tape.used_parameters())
      if (std::find(parameters.begin(), parameters.end(), p) == parameters.end()) parameters.push_back(p);
    std::map<Parameter*, int> ready;
    Replay replay(tape, roots, weights, [&](Parameter& p) { ++ready[&p]; });
    replay.run();
    for (Parameter* p : parameters)
      if (ready[p] != 1) report(cat(p->name(), " became ready ", ready[p], " times, expected once"), where_);
    std::vector<Tensor> gradients;
    for (const Value& leaf : leaves) gradients.push_back(replay.take_gradient(leaf));
    return {gradients, parameters};
  }

  static void make_stale(Parameter& p) {
    p.clear_gradient();
    fill_bytes(p.gradient(), 0xff);
  }

  std::vector<Tensor> weight_gradients(const std::vector<Parameter*>& parameters) {
    std::vector<Tensor> copies;
    for (Parameter* p : parameters) {
      if (!p->has_gradient()) report(cat(p->name(), " got no gradient"), where_);
      copies.push_back(copy_of(p->gradient()));
    }
    return copies;
  }

  void check_delayed(const std::vector<Tensor>& gradients, const std::vector<Parameter*>& parameters,
                     const std::vector<Tensor>& first) {
    const Result delayed = analytic(Replay::Weights::delayed, {});
    for (size_t i = 0; i < gradients.size(); ++i)
      report(bitwise_difference(gradients[i], delayed.gradients[i], Zeros::expected), where_);
    const auto again = weight_gradients(parameters);
    for (size_t i = 0; i < again.size(); ++i) report(bitwise_difference(first[i], again[i], Zeros::expected), where_);
  }

  void check_second_adds(const std::vector<Parameter*>& parameters, const std::vector<Tensor>& first) {
    analytic(Replay::Weights::at_once, {parameters.begin(), parameters.end()});
    const auto sums = weight_gradients(parameters);
    for (size_t i = 0; i < sums.size(); ++i) {
      const Tensor twice = copy_of(first[i]);
      change<double>(twice, [](std::span<double> values) {
        for (double& v : values) v *= 2;
      });
      report(difference(twice, sums[i], tolerance(Dtype::f64, 1024), Zeros::expected), where_);
    }
  }

  std::vector<Tensor> forward() {
    const auto policy = keep_policy();
    Tape tape(lab_.stream(), *policy, Tape::Mode::forget);
    std::vector<Value> constants;
    for (const Tensor& t : inputs_) constants.push_back(tape.leaf(t));
    std::vector<Tensor> outs;
    for (const Value& v : f_(tape, constants)) outs.push_back(v.data);
    return outs;
  }

  // Returns the gradient of output `o`. The gradient depends only on the number and the shape of the output, so every
  // pass gets the same gradient.
  Tensor direction(size_t o, const Tensor& out) {
    const Philox random(Lab::default_seed, Purpose::sample, "output", o);
    std::vector<double> values(out.numel());
    for (size_t i = 0; i < values.size(); ++i) values[i] = options_.root_gradient.value_or(random.normal(i));
    return Tensor::from<double>(values, out.shape(), out.device());
  }

  // The loss L, and the sum of the magnitudes of its terms. Rounding errors are relative to this sum.
  struct Loss {
    double value = 0, magnitude = 0;
  };
  Loss loss() {
    Loss l;
    const auto outs = forward();
    for (size_t o = 0; o < outs.size(); ++o) {
      const auto d = values_of(direction(o, outs[o])), out = values_of(outs[o]);
      for (size_t i = 0; i < d.size(); ++i) {
        const double term = d[i] * out[i];
        l.value += term;
        l.magnitude += std::abs(term);
      }
    }
    return l;
  }

  // Returns dL/ds at s = 0, where the variable is data + s * along.
  double slope(const Variable& v, const std::vector<double>& along) {
    const std::vector<double> original = v.data.to_vector<double>();
    const auto at = [&](double s) {
      std::vector<double> moved = original;
      for (size_t i = 0; i < along.size(); ++i) moved[i] += s * along[i];
      assign(v.data, moved);
      return loss().value;
    };
    const double near = at(step) - at(-step), far = at(2 * step) - at(-2 * step);
    assign(v.data, original);
    return (8 * near - far) / (12 * step);
  }

  void check(const Variable& v) {
    if (!v.gradient.defined()) return report(cat(v.name, " got no gradient"), where_);
    if (v.gradient.shape() != v.data.shape())
      return report(cat(v.name, " has shape ", v.data.shape(), ", but its gradient has shape ", v.gradient.shape()),
                    where_);
    const std::vector<double> gradient = values_of(v.gradient);
    double squares = 0;
    for (double g : gradient) squares += g * g;
    const double norm = std::sqrt(squares), typical = norm / std::sqrt(static_cast<double>(gradient.size()));
    const double rounding = 64 * unit_roundoff(Dtype::f64) * loss().magnitude / step;
    const auto compare = [&](const std::string& what, double numeric, double analytic, double scale) {
      const double allowed = truncation * std::max(std::abs(numeric), scale) + rounding;
      if (std::abs(numeric - analytic) <= allowed) return true;
      report(cat(v.name, " ", v.data.shape(), " ", what, ": finite differences give ", numeric, ", backward gives ",
                 analytic, "; the difference is ", std::abs(numeric - analytic), ", expected at most ", allowed),
             where_);
      return false;
    };

    if (v.data.numel() <= elementwise_limit) {
      const size_t every = few_ ? std::max<size_t>(1, gradient.size() / directions_) : 1;
      for (size_t i = 0; i < gradient.size(); i += every) {
        std::vector<double> along(gradient.size());
        along[i] = 1;
        if (!compare(cat("at ", coordinate(v.data.shape(), static_cast<int64_t>(i))), slope(v, along), gradient[i],
                     typical))
          return;
      }
    } else {
      for (uint64_t d = 0; d < directions_; ++d) {
        const Philox random(Lab::default_seed, Purpose::sample, v.name, d);
        std::vector<double> along(gradient.size());
        double analytic = 0;
        for (size_t i = 0; i < along.size(); ++i) {
          along[i] = random.below(i, 2) ? 1 : -1;
          analytic += along[i] * gradient[i];
        }
        if (!compare(cat("along direction ", d), slope(v, along), analytic, norm)) return;
      }
    }
    const auto none = std::count(gradient.begin(), gradient.end(), 0.0);
    if (options_.zeros == Zeros::mistrusted && gradient.size() >= 4 && 2 * none > std::ssize(gradient))
      report(cat(v.name, " is mistrusted: ", none, " of ", gradient.size(),
                 " gradients are zero; expected at most half, or Zeros::expected"),
             where_);
  }

  Lab& lab_;
  const std::vector<Tensor>& inputs_;
  const Function& f_;
  const GradcheckOptions& options_;
  const bool few_ = options_.of_layers && !lab_.context.on_host();
  const uint64_t directions_ = few_ ? 3 : 12;
  std::source_location where_;
};

}  // namespace

void gradcheck_all(Lab& lab, const std::vector<Tensor>& inputs, const Function& f, const GradcheckOptions& options,
                   std::source_location where) {
  Gradcheck(lab, inputs, f, options, where).run();
}

}  // namespace hexad::tests

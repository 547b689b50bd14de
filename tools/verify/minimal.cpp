#include "tools/verify/minimal.h"

#include <algorithm>
#include <vector>

namespace hexad::verify {
namespace {

std::vector<int> prime_factors(int n) {
  std::vector<int> primes;
  for (int p = 2; p <= n; ++p)
    for (; n % p == 0; n /= p)
      if (primes.empty() || primes.back() != p) primes.push_back(p);
  return primes;
}

// Returns `like` on another mesh. Options without effect on that mesh get their plain values.
Variant on(MeshSizes mesh, const Variant& like) {
  Variant v(mesh);
  for (size_t i = 0; i < options().size(); ++i)
    if (options()[i].matters(mesh)) v.choice[i] = like.choice[i];
  return v;
}

// Returns variants with fewer ranks: pp, or both a dense axis and an expert axis, are divided by a prime factor.
std::vector<Variant> smaller_worlds(const Variant& v) {
  std::vector<Variant> out;
  const auto shrunk = [&](MeshSizes mesh, Axis axis, int factor) {
    mesh[axis] /= factor;
    return mesh;
  };
  for (int p : prime_factors(v.mesh[Axis::pp])) out.push_back(on(shrunk(v.mesh, Axis::pp, p), v));
  for (Axis dense : {Axis::dp, Axis::cp, Axis::tp})
    for (Axis expert : {Axis::edp, Axis::ep, Axis::etp})
      for (int p : prime_factors(v.mesh[dense]))
        if (v.mesh[expert] % p == 0) out.push_back(on(shrunk(shrunk(v.mesh, dense, p), expert, p), v));
  return out;
}

// Returns variants that move a prime factor from one axis to dp or edp, the replica axis of the same view.
std::vector<Variant> simpler_meshes(const Variant& v) {
  std::vector<Variant> out;
  const auto move = [&](Axis axis, Axis replicas) {
    for (int p : prime_factors(v.mesh[axis])) {
      MeshSizes mesh = v.mesh;
      mesh[axis] /= p, mesh[replicas] *= p;
      out.push_back(on(mesh, v));
    }
  };
  for (Axis axis : {Axis::tp, Axis::cp}) move(axis, Axis::dp);
  for (Axis axis : {Axis::etp, Axis::ep}) move(axis, Axis::edp);
  return out;
}

std::vector<Variant> plainer_options(const Variant& v) {
  std::vector<Variant> out;
  for (size_t i = 0; i < v.choice.size(); ++i)
    if (v.choice[i] != 0) {
      out.push_back(v);
      out.back().choice[i] = 0;
    }
  return out;
}

}  // namespace

Variant minimal_failure(const Variant& failing, const std::function<bool(const Variant&)>& fails, Ranks ranks) {
  Variant smallest = failing;
  std::vector<Variant> passed;
  const auto moved = [&](const std::vector<Variant>& candidates) {
    for (const Variant& v : candidates) {
      if (std::find(passed.begin(), passed.end(), v) != passed.end()) continue;
      if (fails(v)) {
        smallest = v;
        return true;
      }
      passed.push_back(v);
    }
    return false;
  };
  while ((ranks == Ranks::may_leave && moved(smaller_worlds(smallest))) || moved(simpler_meshes(smallest)) ||
         moved(plainer_options(smallest))) {
  }
  return smallest;
}

}  // namespace hexad::verify

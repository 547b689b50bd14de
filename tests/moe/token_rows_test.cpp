// Rows of tokens: a token is sent once to each rank with any of its experts, and one weighted sum returns (EPS-MoE).
// Values are whole numbers, so that every order of sums gives the same bits.
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "framework/base/philox.h"
#include "framework/schedule/executor.h"
#include "layers/moe/pass/dispatch.h"
#include "layers/moe/routes/token_rows.h"
#include "parallel/comm/thread_group.h"
#include "tests/ep/plan_for_ids.h"
#include "tests/moe/plain_pass.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"
#include "tools/plan/papers/eps.h"

namespace hexad::tests {

using namespace base;
namespace {

using namespace plan;

using ep::Chunking;
using ep::EspExchange;
using ep::RowOf;
using moe::Overlap;
using moe::Rows;

constexpr int64_t experts = 8, width = 5;

struct Load {
  std::string name;
  int64_t tokens = 9, top_k = 2;  // tokens of each rank; slots of each token
  bool to_one_expert = false, of_one_rank = false, all_dropped = false;
};
void PrintTo(const Load& l, std::ostream* out) { *out << l.name; }

// Converts the weights of the routing plan's tokens to the weights of the rows to send. A row has a weight for each of
// its slots.
Tensor wire_weights(Stream& s, const ep::RoutingPlan& plan, const Tensor& weights) {
  moe::Handoff<Tensor> of_tokens;
  of_tokens.put(weights);
  return moe::WireWeights(of_tokens).get(s, plan);
}

// Returns the ids of the tokens of rank `source`.
Tensor ids_of(Lab& lab, const Load& load, int source) {
  const Philox random(1, Purpose::route, cat("source ", source));
  const int64_t tokens = load.of_one_rank && source > 0 ? 0 : load.tokens;
  std::vector<int32_t> ids;
  uint64_t n = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    std::set<int32_t> chosen;
    while (static_cast<int64_t>(chosen.size()) < load.top_k)
      chosen.insert(load.to_one_expert ? 5 : static_cast<int32_t>(random.below(n++, experts)));
    for (int32_t e : chosen) ids.push_back(load.all_dropped || random.below(n++, 5) == 0 ? -1 : e);
  }
  return lab.values(ids, {tokens, load.top_k});
}

struct Way {
  std::string name;
  Chunking chunking{};
  Overlap overlap = Overlap::sequential;  // if not sequential, chunks are computed together
  int return_phases = 1;                  // if more than 1, the pass has one chunk, which returns in phases
  bool merged() const { return overlap != Overlap::sequential && return_phases == 1; }
};

// Pass in which expert e on etp rank j multiplies its rows by 1 + e + 10 * j. Rank p * etp + j has rank p in the ep
// group.
class FactorPass {
 public:
  FactorPass(const comm::ProcessGroup& world, int etp_size, EspExchange esp_exchange, const Way& way, const Load& load,
             RowOf row_of = RowOf::token)
      : lab(Lab::default_seed + static_cast<uint64_t>(source(world, etp_size, esp_exchange)), {.worker_lanes = true}),
        ep_group(world.split(world.rank() % etp_size, 0, comm::TrafficClass::ep, "ep")),
        etp(world.split(world.rank() / etp_size, 0, comm::TrafficClass::tp, "etp")),
        groups{ep_group.get(), etp.get(), &world},
        ids(ids_of(lab, load, source(world, etp_size, esp_exchange))),
        x(lab.integers({ids.dim(0), width}, 1, 9)),
        weights(lab.integers(ids.shape(), 1, 5)),
        pass({.settings = pass_settings(groups, experts, way.overlap),
              .plan = plan_for_ids(ids, experts, groups,
                                   {.chunking = way.chunking,
                                    .esp_exchange = esp_exchange,
                                    .row_of = row_of,
                                    .merged = way.merged(),
                                    .return_phases = way.return_phases},
                                   lab.stream()),
              .end = ids.dim(0)},
             x),
        row_weights(wire_weights(lab.stream(), plan(), weights)) {
    pass.weights_out = 1;
    pass.weighs = row_of == RowOf::token;
    pass.rows = [this](Stream&, size_t c) { return pass.routes.sent_rows(c, x, row_weights); };
    pass.compute = [this](Stream& s, size_t c, const Rows& rows) { return multiplied(s, c, rows); };
  }
  const ep::RoutingPlan& plan() const { return pass.routes.plan; }

  // Returns the rows times the factor and, if weights return with them, the weights times the factor.
  Rows multiplied(Stream& s, size_t c, const Rows& rows) {
    const Tensor by = factors(c), row = Tensor::empty(by.shape(), Dtype::i64, lab.context);
    const auto& k = kernels::kernels(by.device());
    k.slots.iota(s, row, 0);
    k.permute.gather_weighted(s, rows.values, rows.values, row, by);
    if (pass.weights_back == 0) return {rows.values};
    const Tensor numbers = Tensor::like(rows.row_weights);
    k.permute.gather_weighted(s, numbers, rows.row_weights, row, by);
    return {rows.values, numbers};
  }

  // Returns a factor for each grouped row of chunk c, or of all chunks if they are computed together.
  Tensor factors(size_t c) {
    const auto& offsets = plan().counts.chunks[c].offsets;
    const int64_t local = experts / ep_group->size();
    std::vector<double> all;
    for (int64_t e = 0; e < local; ++e)
      all.insert(all.end(), offsets[e + 1] - offsets[e], factor(ep_group->rank() * local + e, etp->rank()));
    return lab.values(all);
  }
  static double factor(int64_t expert, int etp_rank) { return static_cast<double>(1 + expert + 10 * etp_rank); }

  void run() { schedule::execute(pass.graph(), lab.context); }
  Tensor sums_of_tokens() {
    const Tensor out = Tensor::like(x);
    kernels::kernels(x.device())
        .permute.combine(lab.stream(), out, pass.slot_rows().values, plan().indices.rows, {}, {});
    return out;
  }

  // Returns the sums, over a token's kept slots, of `f(factor, weight)` times the token. `factor` is the sum of the
  // expert's factors on all etp ranks.
  template <class F>
  Tensor expected(const F& f) {
    const auto id = ids.to_vector<int32_t>();
    const auto weight = weights.to_vector<double>(), in = x.to_vector<double>();
    std::vector<double> out(in.size());
    for (size_t i = 0; i < id.size(); ++i) {
      if (id[i] < 0) continue;
      double all = 0;
      for (int j = 0; j < etp->size(); ++j) all += factor(id[i], j);
      const size_t t = i / static_cast<size_t>(ids.dim(1));
      for (size_t d = t * width; d < (t + 1) * width; ++d) out[d] += f(all, weight[i]) * in[d];
    }
    return lab.values(out, x.shape());
  }

  // Returns the source of a rank's tokens. Etp ranks hold the same tokens if rows are replicated.
  static int source(const comm::ProcessGroup& world, int etp_size, EspExchange esp_exchange) {
    return esp_exchange == EspExchange::replicated ? world.rank() / etp_size : world.rank();
  }

  Lab lab;
  std::unique_ptr<comm::ProcessGroup> ep_group, etp;
  ep::ExpertGroups groups;
  Tensor ids, x, weights;
  PlainPass pass;
  Tensor row_weights;
};

std::vector<Way> ways(int ep_ranks) {
  std::vector<Way> all{{"Whole"},
                       {"Tokens3", {Chunking::By::tokens, 3}},
                       {"Tokens16", {Chunking::By::tokens, 16}},
                       {"Experts2", {Chunking::By::experts, 2}},
                       {"O2", {Chunking::By::tokens, 2}, Overlap::a2a_allgather},
                       {"O3", {Chunking::By::tokens, 3}, Overlap::a2a_allgather_copy}};
  if (ep_ranks > 1) {
    all.push_back({"Peers2", {Chunking::By::peers, 2}});
    all.push_back({"Phases2", {}, Overlap::a2a_allgather, 2});
    all.push_back({"Phases4", {}, Overlap::a2a_allgather, 4});
  }
  return all;
}

class TokenRows : public testing::TestWithParam<Load> {
 protected:
  // Calls f(world, etp size, esp_exchange, way) for one, two and four ranks and every way. Combines the etp sizes 1 and
  // 2 with every exchange, but only if the combination is legal.
  template <class F>
  void on_every_mesh(const F& f) {
    for (int ranks : {1, 2, 4})
      for (int etp : {1, 2})
        for (EspExchange esp_exchange : {EspExchange::gather, EspExchange::direct, EspExchange::replicated}) {
          if (etp > ranks || (etp == 1 && esp_exchange != EspExchange::gather)) continue;
          for (const Way& way : ways(ranks / etp)) {
            SCOPED_TRACE(
                cat(ranks / etp, " x ", etp, " ranks, esp_exchange ", static_cast<int>(esp_exchange), " ", way.name));
            comm::with_ranks(ranks, [&](const comm::ProcessGroup& world) { f(world, etp, esp_exchange, way); });
          }
        }
  }
};

TEST_P(TokenRows, ReturnTheWeightedSumOfTheirSlots) {
  on_every_mesh([](const comm::ProcessGroup& world, int etp, EspExchange esp_exchange, const Way& way) {
    FactorPass t(world, etp, esp_exchange, way, GetParam());
    t.run();
    expect_bitwise(t.expected([](double factor, double weight) { return factor * weight; }), t.sums_of_tokens(),
                   Zeros::expected);
  });
}

// Experts return rows and a number for each slot, as in backward. Results are not weighted.
TEST_P(TokenRows, AlsoReturnANumberForEachSlot) {
  on_every_mesh([](const comm::ProcessGroup& world, int etp, EspExchange esp_exchange, const Way& way) {
    FactorPass t(world, etp, esp_exchange, way, GetParam());
    t.pass.weighs = false;
    t.pass.weights_back = 1;
    t.run();
    expect_bitwise(t.expected([](double factor, double) { return factor; }), t.sums_of_tokens(), Zeros::expected);
    const Tensor numbers = Tensor::zeros(t.ids.shape(), Dtype::f64, t.lab.context);
    moe::scatter_by_slot(t.lab.stream(), numbers, t.pass.slot_rows().row_weights, t.plan().indices.row_slots);
    std::vector<double> wanted = t.weights.to_vector<double>();
    const std::vector<int32_t> ids = t.ids.to_vector<int32_t>();
    for (size_t i = 0; i < wanted.size(); ++i) {
      double all = 0;
      for (int j = 0; j < t.etp->size() && ids[i] >= 0; ++j) all += FactorPass::factor(ids[i], j);
      wanted[i] *= all;
    }
    expect_bitwise(t.lab.values(wanted, t.ids.shape()), numbers, Zeros::expected);
  });
}

const Load loads[] = {{.name = "Routed"},
                      {.name = "MoreExpertsATokenThanRanks", .top_k = 5},
                      {.name = "AllExpertsOfEveryToken", .top_k = 8},
                      {.name = "OneToken", .tokens = 1},
                      {.name = "OneRankHasAllTokens", .of_one_rank = true},
                      {.name = "AllTokensToOneExpert", .top_k = 1, .to_one_expert = true},
                      {.name = "EverySlotIsDropped", .all_dropped = true}};
INSTANTIATE_TEST_SUITE_P(, TokenRows, testing::ValuesIn(loads), [](const auto& i) { return i.param.name; });

TEST(TokenRowsGraph, CopiesRowsToTheirGroupsAndReducesThemBeforeTheyReturn) {
  const auto graph = [](int ranks, EspExchange esp_exchange, const Way& way) {
    std::string text;
    comm::with_ranks(ranks, [&](const comm::ProcessGroup& world) {
      FactorPass t(world, ranks, esp_exchange, way, {});
      if (world.rank() == 0) text = t.pass.letters();
    });
    return text;
  };
  EXPECT_EQ(graph(1, EspExchange::gather, {"Whole"}), "inter: S0(P0) R0(U0) | compute: P0 D0(S0) C0(D0) U0(C0)");
  EXPECT_EQ(graph(2, EspExchange::gather, {"Whole"}),
            "inter: S0(P0) R0(A0) | intra: G0(S0) A0(U0) | compute: P0 D0(G0) C0(D0) U0(C0)");
  // A row of the second expert group may have arrived with the first group. A row that returns with the second group
  // has results of both groups.
  EXPECT_EQ(graph(1, EspExchange::gather, {"Experts2", {Chunking::By::experts, 2}}),
            "inter: S0(P0) S1(P1) R0(U0) R1(U1) | "
            "compute: P0 P1 D0(S0) C0(D0) U0(C0) D1(S1,D0) C1(D1) U1(C1,U0)");
  EXPECT_EQ(graph(1, EspExchange::gather, {"O3", {Chunking::By::tokens, 2}, Overlap::a2a_allgather_copy}),
            "inter: S0(P0) S1(P1) R0(U0) R1(U1) | copy: D0(S0) D1(S1) U0(C) U1(C) | compute: P0 P1 C(D0,D1)");
}

TEST(TokenRowsGraph, NeedsExpertGroupsInTurn) {
  comm::with_ranks(1, [&](const comm::ProcessGroup& world) {
    FactorPass t(world, 1, EspExchange::gather, {"Experts2", {Chunking::By::experts, 2}}, {});
    using enum moe::Stage;
    t.pass.routes.settings.order = {"backwards", [](size_t) {
                                      return std::vector<moe::IssueStep>{
                                          {dispatch, 0}, {dispatch, 1},         {compute, 1}, {compute, 0},
                                          {combine, 0},  {weight_gradients, 0}, {combine, 1}, {weight_gradients, 1}};
                                    }};
    EXPECT_THROW(t.pass.graph(), base::Error);
  });
}

TEST(TokenRowsGraph, EightShuffledExecutionOrdersGiveTheSameResult) {
  for (uint64_t seed = 0; seed < 8; ++seed)
    for (const Way& way : ways(1))
      comm::with_ranks(1, [&](const comm::ProcessGroup& world) {
        FactorPass t(world, 1, EspExchange::gather, way, {});
        schedule::execute_shuffled(t.pass.graph(), t.lab.context, seed);
        expect_bitwise(t.expected([](double factor, double weight) { return factor * weight; }), t.sums_of_tokens());
      });
}

// EPS-MoE, section 4.2: P is the number of bytes of the activations of all tokens on D devices. Each token visits g
// devices. All devices are equally likely. A device sends g * P * (D - 1) / D^2 bytes. Without LocalReduce, k replaces
// g. Both formulas also hold for experts in groups.
TEST(TokenRowsGraph, SendsTheVolumeOfEpsMoesFormula) {
  constexpr int64_t devices = 4, tokens = 8, k = 4, g = 2, local = experts / devices;
  comm::with_ranks(devices, [&](const comm::ProcessGroup& world) {
    for (const auto& [row_of, groups] :
         {std::pair(RowOf::token, 1), {RowOf::slot, 1}, {RowOf::token, 2}, {RowOf::slot, 2}}) {
      FactorPass t(world, 1, EspExchange::gather, {"Whole"}, {.name = "Uniform", .tokens = tokens, .top_k = k}, row_of);
      // Token t visits both experts of the devices t and t + 1, modulo the number of devices.
      change<int32_t>(t.ids, [k = k](std::span<int32_t> ids) {
        for (int64_t i = 0; i < std::ssize(ids); ++i)
          ids[i] = static_cast<int32_t>((i / k % devices * local + i % k) % experts);
      });
      PlainPass echo(
          {.settings = pass_settings(t.groups, experts),
           .plan = plan_for_ids(t.ids, experts, t.groups,
                                {.chunking = {Chunking::By::experts, groups}, .row_of = row_of}, t.lab.stream()),
           .end = t.ids.dim(0)},
          t.x);
      const bool of_tokens = row_of == RowOf::token;
      const Tensor row_weights = of_tokens ? wire_weights(t.lab.stream(), echo.routes.plan, t.weights) : Tensor{};
      echo.rows = [&](Stream&, size_t c) { return echo.routes.sent_rows(c, t.x, row_weights); };
      echo.compute = [](Stream&, size_t, const Rows& rows) { return Rows{rows.values}; };
      echo.weights_out = of_tokens ? 1 : 0;
      echo.weighs = of_tokens;
      const schedule::TaskGraph& graph = echo.graph();
      t.ep_group->take(comm::TrafficClass::ep);
      schedule::execute(graph, t.lab.context);

      // The row of a token is sent with one weight for each expert of the device.
      const int64_t back = width * size_of(Dtype::f64);
      const int64_t there = row_of == RowOf::token ? back + local * size_of(Dtype::f64) : back;
      using plan::eps::Mode;
      const auto sent = [&, tokenwise = of_tokens](int64_t row_bytes) {
        const auto P = static_cast<double>(devices * tokens * row_bytes);
        return tokenwise ? plan::eps::volume(Mode::dp_ep, P, devices, g)
                         : plan::eps::combine_volume_without_reduce(Mode::dp_ep, P, devices, k);
      };
      int64_t dispatched = 0, returned = 0;
      for (const schedule::Task& task : graph.tasks()) {
        if (task.spec.name.starts_with("dispatch.a2a")) dispatched += task.spec.cost.wire_bytes;
        if (task.spec.name.starts_with("combine.a2a")) returned += task.spec.cost.wire_bytes;
      }
      EXPECT_EQ(static_cast<double>(dispatched), sent(there));
      EXPECT_EQ(static_cast<double>(returned), sent(back));
      EXPECT_EQ(static_cast<double>(t.ep_group->take(comm::TrafficClass::ep).bytes), sent(there) + sent(back));
    }
  });
}

}  // namespace
}  // namespace hexad::tests

// Tests that the graph of backward mirrors the graph of forward, under every schedule that the list of choices
// (moe_choices.h) allows. A rank sends as many rows in backward as it receives in forward, and vice versa. For example,
// the collective that brings rows to the experts in forward mirrors the collective that returns the gradients of these
// rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ranges>
#include <set>

#include "framework/schedule/graph_runner.h"
#include "layers/moe/routes/row_format.h"
#include "layers/moe/schedule/moe_choices.h"
#include "layers/moe/schedule/schedule_rules.h"
#include "parallel/comm/thread_group.h"
#include "tests/moe/scheduled_layer.h"

namespace hexad::tests {

using namespace base;
namespace {

using moe::ChoiceFacts;
using moe::MoeSchedule;
using moe::ReuseStrategy;
using moe::ScheduleSite;
using schedule::PassKind;
using schedule::TaskKind;

// --- All schedules of a mesh.

struct Mesh {
  std::string name;
  Words overrides;
  std::vector<int> node_of_rank;
  ScheduleSite site;
};
void PrintTo(const Mesh& m, std::ostream* out) { *out << m.name; }

ScheduleSite site_of(int64_t tp, int64_t etp, int64_t ep, bool sp = false) {
  return {.tp = tp,
          .etp = etp,
          .ep = ep,
          .sp = sp,
          .experts = 8,
          .shared_experts = 1,
          .has_capacity = true,
          .two_levels = true};
}
const Mesh meshes[] = {
    {"Ep4", {"parallel.ep=4"}, {0, 0, 0, 0}, site_of(1, 1, 4)},
    {"Ep4OnTwoNodes", {"parallel.ep=4"}, {0, 0, 1, 1}, site_of(1, 1, 4)},
    {"Ep2Etp2", {"parallel.ep=2", "parallel.etp=2"}, {0, 0, 0, 0}, site_of(1, 2, 2)},
    {"Tp2Ep2Etp2OnTwoNodes", {"parallel.tp=2", "parallel.ep=2"}, {0, 0, 1, 1}, site_of(2, 2, 2)},
    {"Tp2SpEp2Etp2", {"parallel.tp=2", "parallel.sp=true", "parallel.ep=2"}, {0, 0, 0, 0}, site_of(2, 2, 2, true)},
    {"Tp2Ep4Etp1", {"parallel.tp=2", "parallel.ep=4", "parallel.etp=1"}, {0, 0, 0, 0}, site_of(2, 1, 4)}};

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;

// Returns the values of a choice that the test combines with other choices. The default comes first. A choice with an
// unlimited number of values has only its default if the choice is not listed here.
template <class T>
std::vector<T> values_of(const T& usual) {
  std::vector<T> all{usual};
  const auto add = [&](const auto& value) {
    if (T(value) != usual) all.emplace_back(value);
  };
  const auto add_enum = [&]<class E>(E) {
    for (const auto& [value, name] : enum_names(E{})) add(value);
  };
  if constexpr (std::is_enum_v<T>)
    add_enum(T{});
  else if constexpr (std::is_same_v<T, int64_t>)  // chunks
    add(2), add(4);
  else if constexpr (std::is_same_v<T, std::string>)
    for (const moe::IssueOrder& order : moe::built_in_orders()) add(order.name);
  else if constexpr (is_optional<T>)
    if constexpr (std::is_enum_v<typename T::value_type>) add_enum(typename T::value_type{});
  return all;
}

// True if the values of this choice take turns in the combinations of all other choices. Such a choice does not change
// which collectives a pass has. It may change kernels, the bytes of a row, the number of rows, the order of issue or a
// task of the compute lane. A new choice takes part in all combinations if it does not keep the bits of results and is
// not named here.
bool takes_turns(std::string_view key, const ChoiceFacts& facts) {
  return facts.keeps_bits || key == "wire" || key == "order" || key == "shared" || key == "capacity_padding";
}

using Change = std::function<void(MoeSchedule&)>;

moe::IssueOrder order_of(const MoeSchedule& s) {
  static const Registry registry;
  return registry.moe_order_of(s);
}

bool is_legal(const MoeSchedule& s, const Mesh& m) {
  if (!refusals(m.site, s).empty()) return false;
  const bool several_nodes = m.node_of_rank.back() != 0;
  if (s.all_to_all == (several_nodes ? ep::AllToAll::window : ep::AllToAll::hierarchical)) return false;
  if (!s.is_chunked()) return s.order == MoeSchedule{}.order;
  const auto steps = order_of(s).steps(static_cast<size_t>(s.chunks));
  return issue_order_problem(steps, static_cast<size_t>(s.chunks), s.copies()).empty() &&
         (!s.joins_rows() || moe::in_turn_problem(steps).empty());
}

std::vector<MoeSchedule> schedules_of(const Mesh& m) {
  std::vector<MoeSchedule> all{MoeSchedule{}};
  std::vector<Change> in_turn;
  moe::each_choice([&](std::string_view key, auto access, const ChoiceFacts& facts) {
    const MoeSchedule plain;
    const auto values = facts.matters(m.site) ? values_of(access(plain)) : std::vector{access(plain)};
    if (takes_turns(key, facts)) {
      for (const auto& value : values) in_turn.emplace_back([access, value](MoeSchedule& s) { access(s) = value; });
      return;
    }
    std::vector<MoeSchedule> longer;
    for (const MoeSchedule& s : all)
      for (const auto& value : values) {
        longer.push_back(s);
        access(longer.back()) = value;
      }
    all = std::move(longer);
  });
  for (MoeSchedule& s : all)
    if (s.shadows()) s.hot_load = 1;
  std::erase_if(all, [&](const MoeSchedule& s) { return !is_legal(s, m); });
  size_t turn = 0;
  for (MoeSchedule& s : all)
    for (size_t tried = 0; tried < in_turn.size(); ++tried) {
      MoeSchedule changed = s;
      in_turn[turn++ % in_turn.size()](changed);
      if (!is_legal(changed, m)) continue;
      s = changed;
      break;
    }
  return all;
}

// --- Collectives of a pass.

struct Collective {
  std::string stage;  // name of the task without its chunk, such as "dispatch.a2a"
  int chunk;          // -1: the task has no chunk
  TaskKind kind;
  schedule::Lane lane;
  std::string group;
  int64_t sent, received;

  bool of(std::string_view part) const { return stage.starts_with(part); }
};

std::vector<Collective> collectives_of(const schedule::TaskGraph& graph) {
  std::vector<Collective> all;
  for (const schedule::Task& task : graph.tasks()) {
    const schedule::TaskSpec& t = task.spec;
    if (!is_communication(t.kind)) continue;
    const size_t bracket = t.name.find('[');
    all.push_back({t.name.substr(0, bracket), bracket == t.name.npos ? -1 : std::stoi(t.name.substr(bracket + 1)),
                   t.kind, t.lane, t.cost.group, t.cost.wire_bytes, t.cost.received_bytes});
  }
  return all;
}

// Removes the collectives for which `belongs` is true, and returns them.
template <class Belongs>
std::vector<Collective> taken_if(std::vector<Collective>& from, const Belongs& belongs) {
  std::vector<Collective> out;
  std::ranges::copy_if(from, std::back_inserter(out), belongs);
  std::erase_if(from, belongs);
  return out;
}
std::vector<Collective> taken(std::vector<Collective>& from, std::string_view part) {
  return taken_if(from, [&](const Collective& c) { return c.of(part); });
}

// Bytes of a row in each pass and direction. In forward, rows of tokens take routing weights to the experts. In
// backward, rows of tokens carry weights and the gradients of these weights. Under memory reuse, all rows of backward
// carry weights and these gradients.
struct RowBytes {
  const MoeSchedule& s;
  int64_t hidden, slots_per_row;

  int64_t of(PassKind pass, const Collective& c) const {
    const bool tokens = s.rows == ep::RowOf::token;
    const bool weights = pass == PassKind::forward ? tokens && c.of("dispatch.") : tokens || s.copies();
    return bytes(c, weights ? slots_per_row : 0);
  }
  // Returns the bytes of a row in collective `c`. Collectives that sum rows send them in the model's format, because
  // rows are packed only after the sum.
  int64_t bytes(const Collective& c, int64_t weights) const {
    const bool sums = c.kind == TaskKind::reduce_scatter || c.kind == TaskKind::all_reduce;
    const auto wire = sums ? kernels::WireFormat::model : s.wire;
    const int64_t element = size_of(Dtype::f64);
    return sums ? (hidden + weights) * element : moe::RowFormat{wire, hidden, Dtype::f64, weights}.row_bytes();
  }
};

// Returns the number of rows in `bytes` bytes. A row has `row_bytes` bytes.
int64_t rows_in(int64_t bytes, int64_t row_bytes) {
  EXPECT_EQ(bytes % row_bytes, 0) << bytes << " bytes are no whole number of rows of " << row_bytes << " bytes";
  return bytes / row_bytes;
}

TaskKind mirror_of(TaskKind kind) {
  if (kind == TaskKind::all_gather) return TaskKind::reduce_scatter;
  if (kind == TaskKind::reduce_scatter) return TaskKind::all_gather;
  return kind;  // the mirror of an all-to-all is an all-to-all; replicated rows are summed by all ranks in both passes
}

// Returns the exchanges of rows in one pass by chunk, with row counts instead of bytes. Adds up the chunks if `fold` is
// true.
std::map<int, std::vector<Collective>> by_chunk(const std::vector<Collective>& exchanges, PassKind pass,
                                                const RowBytes& bytes, bool fold) {
  std::map<int, std::vector<Collective>> all;
  for (Collective c : exchanges) {
    const int64_t of_row = bytes.of(pass, c);
    c.sent = rows_in(c.sent, of_row), c.received = rows_in(c.received, of_row);
    std::vector<Collective>& chunk = all[fold ? 0 : c.chunk];
    const auto same = std::ranges::find(chunk, c.stage, &Collective::stage);
    if (same == chunk.end())
      chunk.push_back(std::move(c));
    else
      same->sent += c.sent, same->received += c.received;
  }
  return all;
}

void expect_equal_collectives(const std::vector<Collective>& forward, const std::vector<Collective>& backward,
                              const std::string& why) {
  ASSERT_EQ(forward.size(), backward.size()) << why;
  for (size_t i = 0; i < forward.size(); ++i) {
    const Collective &f = forward[i], &b = backward[i];
    EXPECT_EQ(f.kind, b.kind) << f.stage << ", " << b.stage << ": " << why;
    EXPECT_EQ(f.group, b.group) << f.stage << ", " << b.stage << ": " << why;
    EXPECT_EQ(f.chunk, b.chunk) << f.stage << ", " << b.stage << ": " << why;
    EXPECT_EQ(f.sent, b.sent) << f.stage << ", " << b.stage << ": " << why;
    EXPECT_EQ(f.received, b.received) << f.stage << ", " << b.stage << ": " << why;
  }
}

// Checks the collectives that have no mirror, each for the reason that the function states, and removes them from both
// passes. Only the exchanges of rows with the experts remain.
void take_exceptions(std::vector<Collective>& forward, std::vector<Collective>& backward, const RowBytes& bytes,
                     const Mesh& m) {
  const MoeSchedule& s = bytes.s;
  {
    const std::string why = "backward sends T_DI again, like forward (memory_reuse: s2 and s4)";
    std::vector<Collective> again = taken(backward, "inputs."), before;
    if (s.copies() && !offloads_inputs(s.memory_reuse))
      std::ranges::copy_if(forward, std::back_inserter(before),
                           [](const Collective& c) { return c.of("dispatch.a2a") || c.of("dispatch.all_gather"); });
    for (Collective& c : again) {
      const int64_t of_row = bytes.bytes(c, 0);
      c.sent = rows_in(c.sent, of_row), c.received = rows_in(c.received, of_row);
    }
    for (Collective& c : before) {
      const int64_t of_row = bytes.of(PassKind::forward, c);
      c.sent = rows_in(c.sent, of_row), c.received = rows_in(c.received, of_row);
    }
    expect_equal_collectives(before, again, why);
  }
  const bool gathers_tokens = s.duplicates == moe::Duplicates::baseline && m.site.etp > 1;
  {
    const auto tokens = taken(forward, "dispatch.tokens");
    EXPECT_EQ(tokens.size(), gathers_tokens ? 1u : 0u);
    expect_equal_collectives(tokens, taken(backward, "dispatch.tokens"),
                             "every gatherer sends all tokens and their gradients, and sums only its own tokens "
                             "(duplicates: baseline)");
    // The gradient of a gathered slot's row needs the slot's weight. Forward needs the weight only beside rows of
    // tokens.
    EXPECT_EQ(taken(forward, "dispatch.weights").size(), gathers_tokens && s.rows == ep::RowOf::token ? 1u : 0u);
    EXPECT_EQ(taken(backward, "dispatch.weights").size(), gathers_tokens ? 1u : 0u);
  }
  {
    const auto is_gather = [](const Collective& c) { return c.of("combine.all_gather") || c.of("shares.all_gather"); };
    const auto results = taken_if(forward, is_gather), gradients = taken_if(backward, is_gather);
    const bool shares = m.site.tp > 1 && !m.site.sp && s.divides();
    EXPECT_EQ(!results.empty(), shares);
    expect_equal_collectives(results, gradients,
                             "each tensor-parallel rank takes its share of T_I and of dT_O from its own copy, and then "
                             "all ranks gather T_O and dT_I");
    EXPECT_EQ(taken(backward, "combine.gather_weights").size(), shares && s.gates_all() ? 1u : 0u)
        << "each tensor-parallel rank gates all tokens, and needs the gradients of all routing weights";
  }
  const auto broadcasts = taken(forward, "shadows.broadcast");
  expect_equal_collectives(broadcasts, taken(backward, "shadows.broadcast"),
                           "ranks do not keep the weights of hot experts (hot_experts: shadow)");
  for (const char* const sum : {"shadows.reduce_scatter", "shadows.a2a"})
    EXPECT_EQ(taken(backward, sum).size(), broadcasts.size())
        << sum << ": the mirror of a broadcast is a sum on the experts' ranks, in two steps";
}

void expect_mirrors(std::vector<Collective> forward, std::vector<Collective> backward, const RowBytes& bytes,
                    const Mesh& m) {
  take_exceptions(forward, backward, bytes, m);
  const auto name = [](const Collective& c) { return cat(c.stage, "[", c.chunk, "]"); };
  std::vector<std::string> issued[2];
  for (const Collective& c : forward) issued[0].push_back(name(c));
  for (const Collective& c : backward) issued[1].push_back(name(c));
  EXPECT_EQ(issued[0], issued[1]) << "both passes issue their exchanges in the order of the schedule";
  // The phases of a return (Parm's SAA) mirror one all-to-all. Joined rows are sent in the first chunk that computes
  // them, and return in the last chunk that computes them.
  const bool fold = bytes.s.returns_in_phases() || bytes.s.joins_rows();
  const auto of_forward = by_chunk(forward, PassKind::forward, bytes, fold);
  auto of_backward = by_chunk(backward, PassKind::backward, bytes, fold);
  ASSERT_EQ(of_forward.size(), of_backward.size());
  for (const auto& [chunk, exchanges] : of_forward) {
    const std::vector<Collective>& mirrors = of_backward[chunk];
    ASSERT_EQ(exchanges.size(), mirrors.size()) << "chunk " << chunk;
    for (size_t i = 0; i < exchanges.size(); ++i) {
      const Collective &f = exchanges[i], &b = mirrors[mirrors.size() - 1 - i];
      const std::string both = cat(f.stage, " of forward and ", b.stage, " of backward, chunk ", chunk);
      EXPECT_EQ(mirror_of(f.kind), b.kind) << both;
      // The sums of replicated rows have no all-gather before the experts: in both passes, each etp rank is sent all
      // rows.
      EXPECT_EQ(f.of("dispatch."), f.kind != TaskKind::all_reduce && !b.of("dispatch.")) << both;
      EXPECT_EQ(f.lane, b.lane) << both;
      EXPECT_EQ(f.group, b.group) << both;
      EXPECT_EQ(f.sent, b.received) << both;
      EXPECT_EQ(f.received, b.sent) << both;
    }
  }
}

class EverySchedule : public testing::TestWithParam<Mesh> {};

TEST_P(EverySchedule, BackwardMirrorsForward) {
  const Mesh& m = GetParam();
  const std::vector<MoeSchedule> schedules = schedules_of(m);
  EXPECT_GE(schedules.size(), 60u);
  comm::with_ranks(
      4,
      [&](const comm::ProcessGroup& world) {
        ScheduledLayer lab(world, joined(m.overrides, {"model.moe.capacity_factor=2", "model.moe.shared_experts=1"}));
        for (const MoeSchedule& s : schedules) {
          SCOPED_TRACE(cat(to_string(s), ", rank ", world.rank()));
          lab.layer.reschedule(s, order_of(s));
          schedule::GraphCollector collector;
          lab.layer.run_passes_by(&collector);
          lab.run();
          std::vector<Collective> forward, backward;
          for (size_t g = 0; g < collector.graphs.size(); ++g)
            // Backward has two graphs under Parm's S1. The second graph gathers gradients after the gate's backward.
            std::ranges::copy(collectives_of(collector.graphs[g]), std::back_inserter(g == 0 ? forward : backward));
          const int64_t slots_of_token = std::min(lab.recipe.model.moe.top_k, m.site.experts / m.site.ep);
          expect_mirrors(std::move(forward), std::move(backward),
                         {s, lab.recipe.model.hidden, s.rows == ep::RowOf::token ? slots_of_token : 1}, m);
          if (world.any(testing::Test::HasFailure(), lab.context)) return;  // all ranks stop at the same schedule
        }
      },
      {.node_of_rank = m.node_of_rank});
}
INSTANTIATE_TEST_SUITE_P(, EverySchedule, testing::ValuesIn(meshes), [](const auto& i) { return i.param.name; });

// The test above would skip a value of a choice if a rule refused all schedules with this value.
TEST(EveryScheduleOfAMesh, IncludesEveryValueOfEveryChoice) {
  std::vector<MoeSchedule> all;
  for (const Mesh& m : meshes) std::ranges::copy(schedules_of(m), std::back_inserter(all));
  moe::each_choice([&](std::string_view key, auto access, const ChoiceFacts&) {
    const MoeSchedule plain;
    const auto values = values_of(access(plain));
    for (size_t v = 0; v < values.size(); ++v)
      EXPECT_TRUE(std::ranges::any_of(all, [&](const MoeSchedule& s) { return access(s) == values[v]; }))
          << "schedule.moe." << key << ", value " << v << " of its list: no mesh of this test allows it";
  });
}

}  // namespace
}  // namespace hexad::tests

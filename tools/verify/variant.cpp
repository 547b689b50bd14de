#include "tools/verify/variant.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "framework/base/counted.h"
#include "framework/base/parsed_number.h"
#include "framework/config/words.h"
#include "layers/moe/schedule/issue_order.h"
#include "layers/moe/schedule/schedule_rules.h"
#include "layers/recompute_config.h"
#include "optim/optim_config.h"
#include "parallel/comm/node_groups.h"
#include "parallel/cp/context_kind.h"
#include "parallel/pp/pipeline_kind.h"
#include "tools/verify/subject_kind.h"

namespace hexad::verify {
namespace {

using base::cat;
using base::ExitCode;
using base::fail;

template <class E>
std::vector<std::string> names_of(E) {
  std::vector<std::string> names;
  for (const auto& [value, name] : enum_names(E{})) names.emplace_back(name);
  return names;
}

constexpr std::string_view own = "own";  // option value that keeps the recipe's setting
constexpr std::string_view limited = "_limited";

// Returns the option with all pipeline kinds. A kind that can overlap pairs of micro-batches has two values: without
// and with overlap.
Option pipeline_option() {
  Option pipeline{"pipeline", "", {}, [](const MeshSizes& m) { return m[Axis::pp] > 1; }, {}};
  const auto add = [&](std::string name, std::string_view kind, std::string_view overlap) {
    pipeline.values.push_back(std::move(name));
    pipeline.sets.push_back({cat("schedule.pipeline.kind=", kind), cat("schedule.pipeline.overlap=", overlap)});
  };
  for (const auto& [kind, name] : enum_names(pp::PipelineKind{})) add(std::string(name), name, "none");
  for (const auto& [kind, name] : enum_names(pp::PipelineKind{}))
    if (pp::PipelineConfig{.kind = kind, .split = {}}.has_pairs()) add(cat(name, "_overlap"), name, "micro_batches");
  return pipeline;
}

// Returns the option for chunks, overlap and order of an MoE layer's work. The plain value keeps the recipe's settings.
Option moe_option() {
  Option moe{"moe", "", {std::string(own)}, [](const MeshSizes&) { return true; }, {}};
  moe.sets.emplace_back();
  const auto add = [&](std::string name, std::string_view overlap, std::string_view cut, int chunks,
                       const std::string& order) {
    moe.values.push_back(std::move(name));
    moe.sets.push_back({cat("schedule.moe.overlap=", overlap), cat("schedule.moe.chunk_by=", cut),
                        cat("schedule.moe.chunks=", chunks), "schedule.moe.order=" + order});
  };
  const std::vector<moe::IssueOrder> orders = moe::built_in_orders();
  const std::string& usual = orders.front().name;
  add("o2", "a2a_allgather", "none", 2, usual);
  add("o3", "a2a_allgather_copy", "none", 2, usual);
  add("o2x4", "a2a_allgather", "none", 4, usual);  // with pause_after_gate and ep=4: one phase for each rank
  add("tokens", "sequential", "tokens", 3, usual);
  add("nodes", "sequential", "nodes", 2, usual);
  add("experts", "sequential", "experts", 2, usual);
  for (size_t i = 1; i < orders.size(); ++i) add(orders[i].name, "sequential", "tokens", 3, orders[i].name);
  add("in_sequence", "none", "tokens", 3, usual);
  return moe;
}

// Returns the option for memory reuse, which restores experts' inputs and activations in backward. Its values are all
// strategies, then two strategies with a memory limit.
Option memory_reuse_option() {
  Option reuse{"memory_reuse", "", {}, [](const MeshSizes&) { return true; }, {}};
  const auto add = [&](std::string_view name, std::string_view ending) {
    reuse.values.push_back(cat(name, ending));
    reuse.sets.push_back({cat("schedule.moe.memory_reuse=", name), "schedule.moe.memory_limit=none"});
  };
  for (const auto& [value, name] : enum_names(moe::ReuseStrategy{})) add(name, "");
  // Strategy s1 offloads everything; s4 offloads nothing.
  for (const std::string_view name : {"s1", "s4"}) add(name, limited);
  return reuse;
}

Option subject_option() {
  Option subject{"subject", "", {}, [](const MeshSizes&) { return true; }, {}};
  for (const SubjectKind& kind : subject_kinds()) subject.values.emplace_back(kind.name);
  return subject;
}

// Values of the option for the order of axes.
// - All are legal on every mesh, because pp is first or last.
// - tp, cp, ep and pp each vary fastest in at least one value. In the last value, dp varies fastest inside a stage.
// - Some, but not all, make tp ranks neighbours, or keep etp groups inside tp groups.
constexpr std::string_view orders[] = {"auto",           "tp-cp-ep-dp-pp", "tp-cp-dp-ep-pp",
                                       "cp-ep-tp-dp-pp", "ep-tp-dp-cp-pp", "pp-dp-ep-cp-tp"};

// True if ranks can be placed so that an ep group of `ep` ranks has several nodes, with several ranks on each.
bool may_have_two_levels(int ep) {
  for (int nodes = 2; nodes * nodes <= ep; ++nodes)
    if (ep % nodes == 0) return true;
  return false;
}

// Returns the option for windows. Subject::illegal() refuses ep groups on several nodes. The nodes of a group depend on
// the order of axes.
Option window_option() {
  return {"window",
          "",
          {"no", "yes"},
          [](const MeshSizes& m) { return m[Axis::ep] > 1 && m[Axis::etp] == 1; },
          {{}, {"schedule.moe.all_to_all=window"}}};
}

// Returns the option for one choice of schedule.moe. If a value requires another key, the option sets both keys. Some
// choices have an effect only on ep groups with two levels. On a mesh, such a choice matters if some placement of ranks
// on nodes gives these groups two levels. Subject::illegal() refuses all_to_all=hierarchical if the actual placement
// does not.
Option schedule_option(const moe::VariedChoice& choice) {
  const auto in_section = [](std::string_view key) { return cat("schedule.moe.", key); };
  Option option{std::string(choice.key), in_section(choice.key), {}, {}, {}};
  option.matters = [matters = choice.matters](const MeshSizes& m) {
    return matters(
        {.tp = m[Axis::tp], .etp = m[Axis::etp], .ep = m[Axis::ep], .two_levels = may_have_two_levels(m[Axis::ep])});
  };
  bool alone = true;
  for (const auto& [value, also] : choice.values) {
    option.values.emplace_back(value);
    option.sets.push_back({cat(option.key, "=", value)});
    if (!also.empty()) option.sets.back().push_back(in_section(also)), alone = false;
  }
  if (alone)
    option.sets.clear();
  else
    option.key.clear();
  return option;
}

Option order_option() {
  Option order{"order", "parallel.order", {std::begin(orders), std::end(orders)}, {}, {}};
  order.matters = [](const MeshSizes& m) {
    const auto several = [&](std::initializer_list<Axis> axes) {
      return std::count_if(axes.begin(), axes.end(), [&](Axis a) { return m[a] > 1; }) > 1;
    };
    return several({Axis::pp, Axis::dp, Axis::cp, Axis::tp}) || several({Axis::pp, Axis::edp, Axis::ep, Axis::etp});
  };
  return order;
}

std::vector<Option> make_options() {
  const auto always = [](const MeshSizes&) { return true; };
  const std::vector<std::string> no_yes{"false", "true"};
  std::vector<Option> all{
      {"sp", "parallel.sp", no_yes, [](const MeshSizes& m) { return m[Axis::tp] > 1; }},
      {"zero",
       "parallel.zero",
       {"0", "1", "2", "3"},
       [](const MeshSizes& m) { return m[Axis::dp] * m[Axis::cp] * m[Axis::edp] > 1; }},
      pipeline_option(),
      {"overlap",  // only without pipeline stages, because the option `pipeline` includes overlap
       "",
       {"none", "micro_batches"},
       [](const MeshSizes& m) { return m[Axis::pp] == 1; },
       {{}, {"schedule.pipeline.overlap=micro_batches"}}},
      {"cp_kind", "parallel.cp_kind", names_of(cp::ContextKind{}), [](const MeshSizes& m) { return m[Axis::cp] > 1; }},
      {"expansion", "parallel.cp_expansion", names_of(mesh::Expansion{}),
       [](const MeshSizes& m) { return m[Axis::cp] > 1 && m[Axis::ep] * m[Axis::etp] > 1; }},
      order_option()};
  for (const moe::VariedChoice& choice : moe::varied_choices()) all.push_back(schedule_option(choice));
  const Option others[] = {
      window_option(),
      moe_option(),
      memory_reuse_option(),
      {"recompute", "recompute", names_of(layers::Recompute{}), always},
      // With buckets of about 1 KiB, a toy model has many buckets, and reductions run during backward. With the
      // recipe's own bucket size, it has a single bucket, whose reduction runs after backward.
      {"bucket_bytes", "distributed.bucket_bytes", {std::string(own), "1024"}, always},
      {"offload", "offload.optimizer", names_of(optim::StateOffload{}), always},
      {"activations",
       "",
       {"kept", "offloaded"},
       always,
       {{"offload.activations=false"}, {"offload.activations=true", "offload.min_bytes=256"}}},
      {"worker_lanes", "schedule.worker_lanes", no_yes, always},
      {"transport", "", {"rendezvous", "engine"}, [](const MeshSizes& m) { return m.world() > 1; }},
      {"start", "", {"fresh", "resumed", "trained"}, always},
      subject_option()};
  all.insert(all.end(), std::begin(others), std::end(others));
  return all;
}

std::vector<int> divisors(int n) {
  std::vector<int> all;
  for (int d = 1; d <= n; ++d)
    if (n % d == 0) all.push_back(d);
  return all;
}

// Calls f(a, b, c) for all a, b and c whose product is n.
template <class F>
void for_each_product(int n, F f) {
  for (int a : divisors(n))
    for (int b : divisors(n / a)) f(a, b, n / a / b);
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(by, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string list_of(const std::vector<std::string>& words) {
  return config::join(std::vector<std::string_view>(words.begin(), words.end()));
}

int whole_number(std::string_view layout, std::string_view name, std::string_view text) {
  const auto value = base::parsed_number<int>(text);
  if (!value || *value < 1)
    fail(ExitCode::usage, "--layouts: '", config::shown(layout), "': ", name, " is '", config::shown(text),
         "', expected a whole number of ranks, at least 1");
  return *value;
}

// Reads one layout, a list of name=value pairs.
class LayoutReader {
 public:
  LayoutReader(std::string_view text, int world) : text_(text), world_(world) {}

  Variant read() {
    for (std::string_view word : split(text_, ',')) {
      const size_t equals = word.find('=');
      if (equals == std::string_view::npos)
        fail(ExitCode::usage, "--layouts: '", config::shown(text_), "': '", config::shown(word),
             "' is not of the form name=value, such as tp=2");
      set(word.substr(0, equals), word.substr(equals + 1));
    }
    complete();
    return variant_;
  }

 private:
  void set(std::string_view name, std::string_view value) {
    std::vector<std::string_view> known;
    for (Axis axis : {Axis::pp, Axis::dp, Axis::cp, Axis::tp, Axis::edp, Axis::ep, Axis::etp}) {
      known.push_back(mesh::name_of(axis));
      if (known.back() != name) continue;
      variant_.mesh[axis] = whole_number(text_, name, value);
      named_.push_back(axis);
      return;
    }
    for (size_t i = 0; i < options().size(); ++i) {
      const Option& option = options()[i];
      known.push_back(option.name);
      if (option.name != name) continue;
      const auto found = std::find(option.values.begin(), option.values.end(), value);
      if (found == option.values.end())
        fail(ExitCode::usage, "--layouts: '", config::shown(text_), "': ", name, " is '", config::shown(value),
             "', expected one of ", list_of(option.values));
      variant_.choice[i] = static_cast<int>(found - option.values.begin());
      return;
    }
    const std::string_view likely = config::closest(name, known);
    fail(ExitCode::usage, "--layouts: '", config::shown(text_), "': unknown name '", config::shown(name), "'",
         likely.empty() ? "." : cat("; did you mean '", likely, "'?"), " Known names: ", config::join(known));
  }

  bool named(Axis axis) const { return std::find(named_.begin(), named_.end(), axis) != named_.end(); }

  // Sets the size of the axis `replicas` (dp or edp) to `ranks` / `others`. `others` is the product of the other axes
  // of the same view. `what` describes this product in messages.
  void fill(Axis replicas, int others, int ranks, std::string_view what) {
    int& size = variant_.mesh[replicas];
    const std::string all =
        cat(" the ", base::counted(ranks, "rank"), " of ", replicas == Axis::dp ? "--world" : "a stage");
    if (named(replicas) && int64_t{others} * size != ranks)
      fail(ExitCode::usage, "--layouts: '", config::shown(text_), "': ", what, " x ", mesh::name_of(replicas), " ",
           size, " is ", int64_t{others} * size, ", but must equal", all);
    if (ranks % others != 0)
      fail(ExitCode::usage, "--layouts: '", config::shown(text_), "': ", what, " does not divide", all,
           "; expected a divisor");
    size = ranks / others;
  }

  void complete() {
    MeshSizes& m = variant_.mesh;
    if (!named(Axis::etp)) m[Axis::etp] = m[Axis::tp];
    fill(Axis::dp, m[Axis::pp] * m[Axis::cp] * m[Axis::tp], world_,
         cat("pp ", m[Axis::pp], " x cp ", m[Axis::cp], " x tp ", m[Axis::tp]));
    fill(Axis::edp, m[Axis::ep] * m[Axis::etp], world_ / m[Axis::pp], cat("ep ", m[Axis::ep], " x etp ", m[Axis::etp]));
    for (size_t i = 0; i < options().size(); ++i)
      if (variant_.choice[i] != 0 && !options()[i].matters(m))
        fail(ExitCode::usage, "--layouts: '", config::shown(text_), "': ", options()[i].name,
             " has no effect on this mesh, ", Variant(m).mesh_text(), "; remove it");
  }

  std::string_view text_;
  int world_;
  Variant variant_;
  std::vector<Axis> named_;
};

}  // namespace

std::vector<MeshSizes> meshes_of(int world) {
  std::vector<MeshSizes> all;
  for (int pp : divisors(world))
    for_each_product(world / pp, [&](int tp, int cp, int dp) {
      for_each_product(world / pp, [&](int etp, int ep, int edp) { all.push_back({{pp, dp, cp, tp, edp, ep, etp}}); });
    });
  return all;
}

std::vector<int> nodes_of_threads(int world) {
  std::vector<int> nodes(world, 0);
  if (std::has_single_bit(static_cast<unsigned>(world))) std::fill(nodes.begin() + (world + 1) / 2, nodes.end(), 1);
  return nodes;
}

bool has_two_levels(const mesh::Layout& layout, const std::vector<int>& node_of_rank) {
  bool all = true;
  mesh::for_each_group(
      layout.world(), [&](int rank) { return layout.members(Axis::ep, rank); },
      [&](const std::vector<int>& ranks) {
        all = all && comm::NodeGrid(comm::nodes_of(ranks, node_of_rank)).two_levels();
      });
  return all;
}

std::span<const Option> options() {
  static const std::vector<Option> all = make_options();
  return all;
}

const std::string& Variant::operator[](std::string_view option) const {
  for (size_t i = 0; i < choice.size(); ++i)
    if (options()[i].name == option) return options()[i].values[choice[i]];
  base::fail_invariant(cat("[verify] option ", option, " is unknown; expected a name in options()"));
}

void Variant::choose(std::string_view option, std::string_view value) {
  for (size_t i = 0; i < choice.size(); ++i) {
    const auto& values = options()[i].values;
    if (options()[i].name != option) continue;
    const auto found = std::find(values.begin(), values.end(), value);
    if (found != values.end()) return void(choice[i] = static_cast<int>(found - values.begin()));
  }
  base::fail_invariant(
      cat("[verify] option ", option, "=", value, " is unknown; expected a name and a value in options()"));
}

bool Variant::has_memory_limit() const { return (*this)["memory_reuse"].ends_with(limited); }

int Variant::kernel_threads() const { return (*this)["compute_share"] == "1" ? 1 : 2; }

std::vector<std::string> Variant::overrides() const {
  std::vector<std::string> out;
  for (Axis axis : {Axis::pp, Axis::cp, Axis::tp, Axis::ep, Axis::etp})
    out.push_back(cat("parallel.", mesh::name_of(axis), "=", mesh[axis]));
  for (size_t i = 0; i < choice.size(); ++i) {
    const Option& option = options()[i];
    const size_t v = choice[i];
    if (!option.sets.empty()) out.insert(out.end(), option.sets[v].begin(), option.sets[v].end());
    if (!option.key.empty() && option.values[v] != own) out.push_back(option.key + "=" + option.values[v]);
  }
  return out;
}

std::string Variant::mesh_text() const {
  std::string text;
  for (Axis axis : {Axis::pp, Axis::dp, Axis::cp, Axis::tp, Axis::ep, Axis::etp}) {
    const int usual = axis == Axis::etp ? mesh[Axis::tp] : 1;
    if (mesh[axis] != usual) text += cat(text.empty() ? "" : ",", mesh::name_of(axis), "=", mesh[axis]);
  }
  return text.empty() ? "dp=1" : text;
}

std::string Variant::options_text() const {
  std::string text;
  for (size_t i = 0; i < choice.size(); ++i)
    if (choice[i] != 0) text += cat(text.empty() ? "" : ",", options()[i].name, "=", options()[i].values[choice[i]]);
  return text;
}

std::string Variant::text() const {
  const std::string more = options_text();
  return more.empty() ? mesh_text() : mesh_text() + "," + more;
}

std::vector<Variant> parse_layouts(std::string_view text, int world) {
  std::vector<Variant> all;
  for (std::string_view one : split(text, ';'))
    if (!one.empty()) all.push_back(LayoutReader(one, world).read());
  if (all.empty())
    fail(ExitCode::usage, "--layouts: '", config::shown(text),
         "' names no layout; expected all, a number, or a list such as tp=2,cp=2;pp=2,ep=4,zero=1");
  return all;
}

}  // namespace hexad::verify

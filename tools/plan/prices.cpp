#include "tools/plan/prices.h"

#include <algorithm>

#include "framework/base/enum_names.h"
#include "framework/base/error.h"
#include "tools/plan/cluster_error.h"
#include "tools/plan/described_prices.h"
#include "tools/plan/measured_prices.h"

namespace hexad::plan {

using base::cat;
using base::Dtype;
using schedule::LaneSet;
using schedule::Rates;

struct Prices::Tables {
  MeasuredPrices measured;
  KernelCurves kernels;
  std::optional<DescribedPrices> described;
  Rates slowdowns{};

  // Returns the description. Throws Error(usage) if there is none. The message joins the texts `missing` to name the
  // missing measurement. These texts are not joined earlier, because a plan prices millions of operations.
  template <class... Parts>
  const DescribedPrices& description(const Parts&... missing) const {
    if (!described)
      fail_cluster("", "the cluster has no measured ", missing...,
                   " and no section machine; measure with hexad profile, or add a section machine");
    return *described;
  }
  // Returns the description, which prices work on `dtype` if products of this type were not measured. Throws
  // Error(usage) if there is none.
  const DescribedPrices& description_of(base::Dtype dtype) const {
    if (!described && dtype == base::Dtype::f64)
      fail_cluster(
          "",
          "the cluster has no section machine, which predictions of f64 need, because hexad profile measures only f32 "
          "and bf16; add this section, or predict with train.precision=f32");
    return description("products of ", base::name_of(dtype));
  }
};

Prices::Prices(const Cluster& cluster) {
  const bool measured = !cluster.products.empty() || !cluster.dense_products.empty() || !cluster.attention.empty() ||
                        !cluster.kernels.empty() || !cluster.links.empty() || !cluster.copies.empty();
  if (!cluster.machine && !measured)
    fail_cluster("",
                 "the cluster has neither measurements nor a section machine; measure with hexad profile, or add a "
                 "section machine");
  auto tables = std::make_shared<Tables>(Tables{MeasuredPrices(cluster), KernelCurves(cluster), {}, {}});
  if (cluster.machine) tables->described.emplace(*cluster.machine);
  for (const MeasuredSlowdown& s : cluster.slowdowns) {
    LaneSet beside;
    for (const Lane lane : s.beside) beside.add(lane);
    tables->slowdowns.slowdowns.push_back({s.of, beside, std::min(1.0, s.speed)});
  }
  tables->slowdowns.speed_of_threads = speeds_of_threads(cluster.measured.threads, cluster.fewer_threads);
  if (tables->described) tables->described->add_slowdowns(tables->slowdowns);
  tables_ = std::move(tables);
}

double Prices::product(const Product& p) const { return product(p, p.rows / p.groups); }

double Prices::product(const Product& p, double largest) const {
  if (p.rows <= 0) return 0;
  base::require(p.inputs > 0 && p.outputs > 0 && p.groups >= 1, "[Prices] a product has a weight of ", p.inputs, " x ",
                p.outputs, " and ", p.groups, " groups; expected sizes above 0 and at least 1 group");
  base::require(largest * (1 + 1e-9) >= p.rows / p.groups, "[Prices] the largest of ", p.groups, " groups has ",
                largest, " rows; expected at least ", p.rows / p.groups, ", the mean of ", p.rows, " rows");
  if (!tables_->measured.has_products(p.dtype)) return tables_->description_of(p.dtype).product(p, largest);
  return tables_->measured.product(p) + (p.extra_bytes > 0 ? memory_bound(p.extra_bytes) : 0);
}

double Prices::attention(const Attention& a) const {
  if (a.flops <= 0) return 0;
  base::require(a.head_dim > 0, "[Prices] head_dim of attention is ", a.head_dim, ", expected above 0");
  Attention measured = a;  // only CPUs have measured curves, and CPUs do not compute the padding of values
  measured.flops *= a.without_padding;
  if (const auto seconds = tables_->kernels.attention(measured)) return *seconds;
  if (tables_->measured.has_products(a.dtype)) return tables_->measured.attention(a);
  return tables_->description_of(a.dtype).attention(a);
}

double Prices::memory_bound(double bytes, double kernels) const {
  if (bytes <= 0) return 0;
  base::require(kernels >= 1, "[Prices] the number of kernels is ", kernels, ", expected at least 1");
  if (!tables_->measured.has(CopyKind::copy)) return tables_->description("copies").memory_bound(bytes, kernels);
  return kernels * tables_->measured.copy(CopyKind::copy, bytes / (2 * kernels));
}

double Prices::kernel(KernelClass of, Dtype dtype, double bytes) const {
  if (bytes <= 0) return 0;
  const std::optional<double> measured = tables_->kernels.kernel(of, dtype, bytes);
  return measured ? *measured : memory_bound(bytes);
}

double Prices::operation() const {
  if (const auto& measured = tables_->measured.cluster().operation) return *measured;
  return tables_->described && tables_->described->computes_on_host() ? tables_->described->operation() : 0;
}

double Prices::issuing() const {
  if (tables_->measured.cluster().operation || !tables_->described || tables_->described->computes_on_host()) return 0;
  return tables_->described->operation();
}

double Prices::handoff() const { return tables_->measured.cluster().handoff.value_or(0); }

double Prices::copy(CopyKind kind, double bytes) const {
  if (bytes <= 0) return 0;
  if (tables_->measured.has(kind)) return tables_->measured.copy(kind, bytes);
  if (kind == CopyKind::copy || kind == CopyKind::gather) return memory_bound(2 * bytes);
  return tables_->description(base::enum_name(kind), " copies").copy(kind, bytes);
}

double Prices::collective(Collective operation, const GroupPlace& place, double bytes) const {
  if (bytes <= 0 || place.ranks < 2) return 0;
  base::require(place.nodes >= 1 && place.groups >= 1 && place.ranks_per_node * place.nodes == place.ranks, "[Prices] ",
                place.groups, " groups of ", place.ranks, " ranks are on ", place.nodes, " nodes x ",
                place.ranks_per_node,
                " ranks; expected at least 1 group and 1 node, and nodes x ranks equal to the ranks of a group");
  const bool described = tables_->described && !tables_->measured.has_link(operation, place);
  if (tables_->measured.has_links() && !described) return tables_->measured.collective(operation, place, bytes);
  return tables_->description("links").collective(operation, place, bytes);
}

double Prices::slowdown(schedule::Lane lane, schedule::LaneSet beside) const {
  return tables_->slowdowns.alpha(lane, beside);
}

double Prices::speed_of_share(double share, base::Dtype dtype) const {
  return tables_->measured.has_products(dtype) ? tables_->slowdowns.speed_of_share(share) : share;
}

std::optional<schedule::SharedCores> Prices::cores(int64_t ranks) const {
  return shared_cores(tables_->measured.cluster().measured, ranks);
}

double Prices::peak(base::Dtype dtype) const {
  const double described = tables_->described ? tables_->described->known_peak(dtype) : 0;
  if (described > 0) return described;
  return tables_->measured.peak(dtype);
}

int64_t Prices::domain() const { return tables_->described ? *tables_->described->machine().domain : ranks_per_node(); }

int64_t Prices::nodes() const {
  return tables_->described ? tables_->described->machine().nodes : tables_->measured.cluster().measured.nodes;
}

int64_t Prices::ranks_per_node() const {
  return tables_->described ? tables_->described->machine().ranks_per_node
                            : tables_->measured.cluster().measured.ranks_per_node;
}

std::vector<std::string> assumptions(const Cluster& cluster) {
  std::vector<std::string> texts;
  if (cluster.measured.date == "assumed")
    texts.emplace_back("all curves: from a default machine, because no curve was measured");
  const MeasuredPrices measured(cluster);
  const KernelCurves kernels(cluster);
  bool has_products = false;
  for (const auto& [element, name] : enum_names(Element{})) {
    if (!measured.has_products(element == Element::f32 ? Dtype::f32 : Dtype::bf16)) continue;
    has_products = true;
    if (!kernels.has_attention(element))
      texts.push_back(cat("attention in ", name, ": half the rate of the largest measured product"));
    if (!measured.has_single_products(element))
      texts.push_back(
          cat("dense products in ", name, ": priced like one expert of the nearest measured grouped product"));
    if (measured.lacks_passes(element))
      texts.push_back(cat("products in ", name, ": passes that were not measured are priced like a measured pass"));
  }
  if (has_products && !cluster.operation && !cluster.machine)
    texts.emplace_back("host: an operation takes no time in addition to its kernel");
  if (has_products && !cluster.handoff)
    texts.emplace_back("host: an operation on the thread of a lane takes as long as an operation on the rank's thread");
  if (has_products && !cluster.machine && cluster.slowdowns.empty())
    texts.emplace_back("slowdowns: none, because none was measured; work keeps its speed beside other work");
  for (std::string& text : kernels.assumptions()) texts.push_back(std::move(text));
  if (measured.has(CopyKind::copy)) {
    if (!kernels.has_kernels())
      texts.emplace_back(
          "memory-bound kernels: priced like the measured copy that reads and writes the same number of bytes");
    if (!measured.has(CopyKind::gather)) texts.emplace_back("gather: priced like the measured copy");
  }
  if (cluster.machine)
    for (std::string& text : complete(*cluster.machine).assumptions) texts.push_back(std::move(text));
  return texts;
}

}  // namespace hexad::plan

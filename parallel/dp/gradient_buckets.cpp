#include "parallel/dp/gradient_buckets.h"

#include <ranges>

namespace hexad::dp {
GradientBuckets::GradientBuckets(ParameterSet& parameters, const mesh::Mesh& mesh, int64_t bucket_bytes) {
  struct Open {
    std::vector<Parameter*> parameters;
    int64_t elements = 0;
  };
  std::unordered_map<const comm::ProcessGroup*, Open> open;
  std::vector<const comm::ProcessGroup*> groups;  // in order of first use, so that buckets have one order everywhere

  const auto close = [&](const comm::ProcessGroup* group) {
    Open& o = open[group];
    if (o.parameters.empty()) return;
    const Dtype acc = accumulator_dtype(o.parameters.front()->local().dtype());
    Bucket bucket{Tensor::empty({o.elements}, acc, parameters.device(), Category::gradient),
                  group,
                  std::move(o.parameters),
                  0,
                  {}};
    bucket.waiting = bucket.parameters.size();
    int64_t begin = 0;
    for (Parameter* p : bucket.parameters) {
      const int64_t end = begin + p->local().numel();
      p->bind_gradient(bucket.memory.slice(0, begin, end).reshape(p->local().shape()));
      begin = end;
      bucket_of_[p] = buckets_.size();
    }
    buckets_.push_back(std::move(bucket));
    o = {};
  };

  std::vector<Parameter*> reversed;
  for (const auto& p : parameters) reversed.push_back(p.get());
  for (Parameter* p : reversed | std::views::reverse) {
    const comm::ProcessGroup* group = &mesh.replicas(p->placement().view);
    if (!open.contains(group)) groups.push_back(group);
    Open& o = open[group];
    o.parameters.push_back(p);
    o.elements += p->local().numel();
    if (o.elements * size_of(accumulator_dtype(p->local().dtype())) >= bucket_bytes) close(group);
  }
  for (const comm::ProcessGroup* group : groups) close(group);
}

void GradientBuckets::start(Bucket& bucket, Stream& stream) {
  for (Parameter* p : bucket.parameters) p->gradient_to_add(stream);  // zeroes what no token touched
  bucket.reduced = bucket.group->all_reduce(bucket.memory, comm::Reduce::sum, stream);
}

void GradientBuckets::start_in_order(Stream& stream) {
  while (next_ < buckets_.size() && buckets_[next_].waiting == 0) start(buckets_[next_++], stream);
}

void GradientBuckets::ready(Parameter& parameter, Stream& stream) {
  const auto it = bucket_of_.find(&parameter);
  require(it != bucket_of_.end(), "[buckets] ", parameter.name(), " is in no bucket");
  Bucket& bucket = buckets_[it->second];
  require(bucket.waiting > 0, "[buckets] ", parameter.name(), " became ready twice in one step");
  --bucket.waiting;
  start_in_order(stream);
}

void GradientBuckets::finish(Stream& stream) {
  for (; next_ < buckets_.size(); ++next_) start(buckets_[next_], stream);
  for (Bucket& bucket : buckets_) {
    stream.wait(bucket.reduced);
    bucket.reduced = {};
    bucket.waiting = bucket.parameters.size();
  }
  next_ = 0;
}

}  // namespace hexad::dp

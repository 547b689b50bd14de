// Repetitions of parts of an IssueLog must add the same operations as running these parts again.
#include "framework/device/meta/issue_part.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "framework/device/context.h"
#include "framework/device/meta/meta_stream.h"

namespace hexad::device {
namespace {

// A log with three lanes, to which a test issues operations.
class Rank {
 public:
  int32_t kernel(Lane lane) { return log.add("kernel", "", lane, MemoryWork{1}); }
  Event exchange() {
    return Event::at(
        log.mark(log.add("comm", "all_to_all", Lane::inter, CommunicationWork{.group = 0, .sent = 1, .received = 1})));
  }

  IssueLog log{IssueLog::Host::launches};
  MetaStream compute{Lane::compute, &log}, inter{Lane::inter, &log}, copy{Lane::copy, &log};
};

// Runs `pass` three times on one rank. On another rank, runs `pass` once and repeats its part of the log twice.
// Compares both logs.
template <class F>
void expect_repeats(F&& pass) {
  Rank runs, repeats;
  for (int i = 0; i < 3; ++i) pass(runs);
  IssuePart part;
  repeats.log.start_part(part);
  pass(repeats);
  repeats.log.end_part();
  ASSERT_TRUE(part.repeatable_after({}));
  for (int i = 0; i < 2; ++i) repeats.log.repeat(part, {});
  EXPECT_FALSE(runs.log.issues().empty());
  EXPECT_TRUE(runs.log.issues() == repeats.log.issues());
}

TEST(IssuePart, RepetitionWaitsForItsOwnOperations) {
  expect_repeats([](Rank& r) {
    r.kernel(Lane::compute);
    r.inter.wait(r.compute.record());
    const Event exchanged = r.exchange();
    r.kernel(Lane::compute);
    r.compute.wait(exchanged);
    r.kernel(Lane::compute);
  });
}

TEST(IssuePart, RepetitionWaitsForMarksThatWereEmptyInThePart) {
  expect_repeats([](Rank& r) {
    r.inter.wait(r.compute.record());  // the first pass has no operation before this mark
    r.exchange();
    r.kernel(Lane::compute);
  });
}

TEST(IssuePart, RepetitionHasTheWaitsOfTheHost) {
  expect_repeats([](Rank& r) {
    r.kernel(Lane::copy);
    r.copy.record().wait();
    r.kernel(Lane::compute);
  });
}

TEST(IssuePart, RepetitionWaitsForTheRepetitionOfAnEarlierPart) {
  Rank runs, repeats;
  const auto forward = [](Rank& r) {
    r.kernel(Lane::copy);
    return r.copy.record();
  };
  const auto backward = [](Rank& r, const Event& copied) {
    r.compute.wait(copied);
    r.kernel(Lane::compute);
  };
  for (int i = 0; i < 2; ++i) {
    const Event copied = forward(runs);
    runs.kernel(Lane::copy);
    backward(runs, copied);
  }

  std::array<IssuePart, 2> parts;
  repeats.log.start_part(parts[0]);
  const Event copied = forward(repeats);
  repeats.log.end_part();
  repeats.kernel(Lane::copy);
  repeats.log.start_part(parts[1]);
  backward(repeats, copied);
  repeats.log.end_part();
  const IssuePart* const earlier = &parts[0];
  EXPECT_FALSE(parts[1].repeatable_after({})) << "the part waits for a mark of the earlier part";
  EXPECT_TRUE(parts[1].repeatable_after({&earlier, 1}));

  const RepeatedPart repeated = repeats.log.repeat(parts[0], {});
  repeats.kernel(Lane::copy);
  repeats.log.repeat(parts[1], {&repeated, 1});
  EXPECT_TRUE(runs.log.issues() == repeats.log.issues());
}

// Stand-in for calls of the program within a part. Every call but the first issues a kernel. Every odd call then issues
// an exchange. Each call returns the event of the last exchange.
class Buckets {
 public:
  explicit Buckets(Rank& rank) : rank_(rank) {}
  Event call() {
    if (calls_++ > 0) rank_.kernel(Lane::compute);
    return calls_ % 2 == 1 ? last_ = rank_.exchange() : last_;
  }

 private:
  Rank& rank_;
  int calls_ = 0;
  Event last_;
};

TEST(IssuePart, RepetitionMakesCallsOfTheProgramAgain) {
  Rank runs, repeats;
  Buckets of_runs(runs), of_repeats(repeats);
  const auto pass = [](Rank& r, const auto& call) {
    r.kernel(Lane::compute);
    const Event first = call();
    r.inter.wait(r.compute.record());
    const Event exchanged = r.exchange();  // marks that `call` adds change the number of this event's mark
    r.compute.wait(first);
    r.kernel(Lane::compute);
    const Event second = call();
    r.compute.wait(exchanged);
    r.compute.wait(second);
    r.kernel(Lane::compute);
    return std::vector{first, second};
  };
  for (int i = 0; i < 3; ++i) pass(runs, [&] { return of_runs.call(); });

  IssuePart part;
  repeats.log.start_part(part);
  const std::vector<Event> events = pass(repeats, [&] {
    const IssueLog::InnerCall inner(repeats.log);
    EXPECT_TRUE(inner.recorded());
    return of_repeats.call();
  });
  repeats.log.end_part();
  EXPECT_FALSE(part.repeatable_after({})) << "the part waits for events of the program's calls";
  part.bind(events);
  ASSERT_TRUE(part.repeatable_after({}));
  for (int i = 0; i < 2; ++i) repeats.log.repeat(part, {}, [&](size_t) { return of_repeats.call(); });
  EXPECT_TRUE(runs.log.issues() == repeats.log.issues());
}

TEST(IssuePart, RepetitionsMayBelongToOtherParts) {
  Rank runs, repeats;
  const auto pass = [](Rank& r) {
    r.kernel(Lane::compute);
    r.inter.wait(r.compute.record());
    const Event exchanged = r.exchange();
    r.kernel(Lane::compute);
    r.compute.wait(exchanged);
    r.kernel(Lane::compute);
  };
  for (int i = 0; i < 5; ++i) pass(runs);

  IssuePart inner, outer;
  repeats.log.start_part(inner);
  pass(repeats);
  repeats.log.end_part();
  repeats.log.start_part(outer);
  for (int i = 0; i < 2; ++i) repeats.log.repeat(inner, {});
  repeats.log.end_part();
  ASSERT_TRUE(outer.repeatable_after({}));
  repeats.log.repeat(outer, {});
  EXPECT_TRUE(runs.log.issues() == repeats.log.issues());
}

TEST(IssuePart, RepetitionsRenameSpans) {
  DeviceContext context;
  SpanLog& spans = context.spans();
  IssueLog log(IssueLog::Host::launches);
  log.follow(spans);
  spans.start();
  IssuePart part;
  log.start_part(part);
  for (const char* name : {"layers.1.moe forward", "layers.1 backward", "layers.10.moe forward"}) {
    const Span span(spans, name);
    log.add("kernel", "", Lane::compute, MemoryWork{1});
  }
  log.end_part();
  log.repeat(part, {}, {}, {"layers.1", "layers.7"});
  std::vector<std::string> names;
  for (const SpanLog::Recorded& span : spans.stop().host) names.push_back(span.name);
  names.erase(names.begin(), names.begin() + 3);
  EXPECT_EQ(names, (std::vector<std::string>{"layers.7.moe forward", "layers.7 backward", "layers.10.moe forward"}));
  EXPECT_EQ(log.issues()[4].span, 4);
}

TEST(IssuePart, RepetitionsCountMemory) {
  const auto log = std::make_shared<IssueLog>(IssueLog::Host::launches);
  MetaAllocator allocator(std::make_shared<MetaMemory>(), log);
  IssuePart part;
  part.counts_memory = true;
  log->start_part(part);
  void* const kept = allocator.allocate(1000, Category::temporary);
  void* const freed = allocator.allocate(3000, Category::temporary);
  allocator.deallocate(freed, 3000, Category::temporary);
  allocator.recategorise(1000, Category::temporary, Category::activation);
  log->end_part();
  log->repeat(part, {});
  const MemoryStats stats = allocator.stats();
  EXPECT_EQ(stats.used_in(Category::activation), 2000);
  EXPECT_EQ(stats.used_in(Category::temporary), 0);
  EXPECT_EQ(stats.peak_total, 5000);
  EXPECT_EQ(stats.held, 2 * block_size(1000));
  EXPECT_EQ(stats.peak_held, 2 * block_size(1000) + block_size(3000));
  allocator.deallocate(kept, 1000, Category::activation);
}

// Records a kernel on lane compute and a kernel on lane copy. If `waits_for_call` is true, lane copy waits for the
// event that an inner call (IssueLog::InnerCall) returned. Otherwise, lane copy waits for lane compute.
IssuePart recorded(Rank& r, int64_t bytes, bool waits_for_call) {
  IssuePart part;
  r.log.start_part(part);
  r.log.add("kernel", "", Lane::compute, MemoryWork{bytes});
  Event call;
  {
    const IssueLog::InnerCall inner(r.log);
    call = r.exchange();
  }
  const Event computed = r.compute.record();
  r.copy.wait(waits_for_call ? call : computed);
  r.kernel(Lane::copy);
  r.log.end_part();
  part.bind(std::vector{call});
  return part;
}

TEST(IssuePart, PartsHaveTheSameCallsIfOnlyTheirMarksDiffer) {
  Rank r;
  for (const bool waits_for_call : {false, true}) {
    const IssuePart part = recorded(r, 1, waits_for_call);
    EXPECT_TRUE(part.same_calls(recorded(r, 1, waits_for_call)));
    EXPECT_FALSE(part.same_calls(recorded(r, 2, waits_for_call))) << "a kernel has another size";
    EXPECT_FALSE(part.same_calls(recorded(r, 1, !waits_for_call))) << "a lane waits for another event";
    EXPECT_FALSE(part.same_calls(IssuePart())) << "an empty part has no calls";
  }
}

TEST(IssuePart, PartsCannotContainParts) {
  Rank r;
  IssuePart outer, inner;
  r.log.start_part(outer);
  EXPECT_THROW(r.log.start_part(inner), std::logic_error);
  r.log.end_part();
  EXPECT_THROW(r.log.end_part(), std::logic_error);
}

}  // namespace
}  // namespace hexad::device

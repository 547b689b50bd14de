// The recipe that `hexad plan --out` writes.
#include "tools/hexad/commands/plan_overlay.h"

#include <gtest/gtest.h>

namespace hexad::app {
namespace {

const std::string recipe =
    "model: {layers: 8, hidden: 512}\n"
    "distributed: {priority: [tp, ep, pp]}\n";

TEST(PlanOverlay, HasEachGivenOrPlannedKeyOnce) {
  const std::vector<std::string> given{"model={layers: 4}", "parallel={ep: 4, cp_kind: ring}", "parallel.tp=2"};
  EXPECT_EQ(overlay_text("/recipes/a.yaml", config::parse(recipe, "a.yaml", given),
                         {{"parallel.tp", "8"}, {"parallel.ep", "1"}, {"schedule.pipeline.split", "[3, 5]"}}),
            "include: /recipes/a.yaml\n"
            "model:\n"
            "  layers: 4\n"
            "parallel:\n"
            "  cp_kind: ring\n"
            "  tp: 8\n"
            "  ep: 1\n"
            "schedule:\n"
            "  pipeline:\n"
            "    split: [3, 5]\n");
}

TEST(PlanOverlay, ReadsBackAsTheTextsOfTheCommandLine) {
  const std::vector<std::string> given{"run.dir=a: # b, c", "data.source_options=[{name: \"1\", number: 1}]",
                                       "distributed.priority.0=pp", "train.resume=null"};
  const std::string text = overlay_text("/a #1.yaml", config::parse(recipe, "a.yaml", given), {});
  const config::Node root = config::parse(text, "overlay.yaml").root;
  EXPECT_EQ(root.find("include")->text, "/a #1.yaml") << text;
  EXPECT_EQ(root.find("run")->find("dir")->text, "a: # b, c") << text;
  const config::Node& option = root.find("data")->find("source_options")->children.at(0);
  EXPECT_TRUE(option.find("name")->quoted) << text;
  EXPECT_FALSE(option.find("number")->quoted) << text;
  EXPECT_EQ(root.find("train")->find("resume")->kind, config::Node::Kind::null) << text;
  const std::vector<config::Node>& priority = root.find("distributed")->find("priority")->children;
  ASSERT_EQ(priority.size(), 3U) << "the list must be complete: " << text;
  EXPECT_EQ(priority[0].text, "pp");
  EXPECT_EQ(priority[1].text, "ep");
  EXPECT_EQ(root.find("model"), nullptr) << text;
}

}  // namespace
}  // namespace hexad::app

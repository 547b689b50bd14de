// Table, list of findings, JSON and picture of made-up figures.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/check_cluster/made_up.h"
#include "tools/check_cluster/figures_json.h"
#include "tools/check_cluster/figures_text.h"
#include "tools/check_cluster/links_svg.h"

namespace hexad::check_cluster {
namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

TEST(ReportJson, ReadsWhatItWrites) {
  auto ranks = healthy_cluster(2, 2);
  ranks[2].damaged_from = {1};
  ranks[2].folder->missing = {0}, ranks[2].folder->torn = {3}, ranks[2].folder->stale = {1};
  ranks[2].folder->lock_ignored = true, ranks[2].folder->error = "an error";
  ranks[2].folder->lock_error = "No locks available";
  ranks[2].facts.hyperthreads = {{4, 0}, {5, 1}};
  ranks[2].facts.card_id = "ab", ranks[2].facts.card_memory = 5, ranks[2].facts.card_exit_code = 2;
  ranks[2].facts.card_state.driver = "580.65.06", ranks[2].facts.card_state.uncorrected_errors = 3;
  ranks[2].card_product_rate = 6e14;
  for (const RankReport& rank : ranks) EXPECT_EQ(to_json(report_from_json(to_json(rank))), to_json(rank));
  const RankReport read = report_from_json(to_json(ranks[2]));
  EXPECT_EQ(read.facts.libraries, ranks[2].facts.libraries);
  EXPECT_EQ(read.facts.hyperthreads, (std::map<int, int>{{4, 0}, {5, 1}}));
  EXPECT_EQ(read.facts.card_memory, 5);
  EXPECT_EQ(read.facts.card_exit_code, 2);
  EXPECT_EQ(read.facts.card_state.driver, "580.65.06");
  EXPECT_EQ(read.facts.card_state.uncorrected_errors, 3);
  EXPECT_FALSE(read.facts.card_state.temperature);
  EXPECT_EQ(read.card_product_rate, 6e14);
  EXPECT_EQ(read.folder->lock_error, "No locks available");
  EXPECT_EQ(read.links.size(), ranks[2].links.size());
  EXPECT_EQ(read.clock_offset, ranks[2].clock_offset);
  EXPECT_EQ(read.folder->missing, std::vector<int>{0});
  EXPECT_FALSE(report_from_json(to_json(ranks[1])).folder);
}

TEST(ResultsJson, HoldsFindingsAndTheExitCode) {
  auto ranks = healthy_cluster(2, 1);
  ranks[1].folder->error = "/shared: read-only";
  const auto json = nlohmann::json::parse(results_json(ranks, judge(ranks, {})));
  EXPECT_EQ(json.at("exit_code"), 4);
  ASSERT_EQ(json.at("findings").size(), 1u);
  EXPECT_EQ(json.at("findings")[0].at("severity"), "failure");
  EXPECT_EQ(json.at("findings")[0].at("kind"), "folder");
  EXPECT_EQ(json.at("ranks")[1].at("facts").at("node"), "b");
}

TEST(FiguresTable, ListsFiguresOfRanksLinksGroupsClocksAndFolder) {
  const std::string table = figures_table(healthy_cluster(2, 2));
  for (const char* part : {"4 ranks on 2 nodes; hexad 1.0.0", "0 ranks with a GPU", "products of a rank",
                           "20.0 GFLOP/s", "messages inside nodes", "messages between nodes", "latency between nodes",
                           "all_reduce of 2 ranks, intra", "clocks, offset from node 0", "folder: write and fsync"})
    EXPECT_NE(table.find(part), std::string::npos) << part << " is not in\n" << table;
}

TEST(FiguresTable, ListsKnownAndUnknownFiguresOfGpus) {
  auto ranks = healthy_cluster(2, 1);
  EXPECT_EQ(figures_table(ranks).find("of a GPU"), std::string::npos);
  ranks[0].facts.card = "a card";
  ranks[0].facts.card_state.temperature = 60;
  const std::string table = figures_table(ranks);
  for (const char* part :
       {"1 rank with a GPU", "temperature of a GPU                         60 C           60 C",
        "SM clock of a GPU                         unknown\n", "driver of the GPUs                        unknown\n"})
    EXPECT_NE(table.find(part), std::string::npos) << part << " is not in\n" << table;
}

TEST(FiguresTable, DistinguishesAFailedCheckOfTheFolderFromNone) {
  auto ranks = healthy_cluster(1, 1);
  ranks[0].folder->error = "an error";
  EXPECT_EQ(figures_table(ranks).find("folder"), std::string::npos);
  ranks[0].folder.reset();
  EXPECT_NE(figures_table(ranks).find("not checked; --folder DIR checks one"), std::string::npos);
}

TEST(FindingsList, NamesTheExitCodeOfFailuresOnly) {
  EXPECT_EQ(findings_list({}), "no problems found\n");
  Finding warning, failure;
  warning.kind = "link", warning.message = "slow";
  failure.kind = "gpu", failure.message = "none", failure.code = base::ExitCode::resource;
  EXPECT_EQ(findings_list({failure, warning}),
            "failure, gpu: none; a run would end with exit code 4\nwarning, link: slow\n");
}

TEST(LinksPicture, HasACellForEveryPairOfNodes) {
  auto ranks = healthy_cluster(3, 2);
  ranks[4].facts.host = ranks[5].facts.host = "<c>";
  const std::string picture = links_svg(ranks);
  EXPECT_EQ(count_of(picture, "<rect fill="), 18u);  // 3 x 3 nodes in two tables
  EXPECT_EQ(count_of(picture, "class=\"empty\""), 0u);
  EXPECT_NE(picture.find("from a to &lt;c&gt;: "), std::string::npos);
  EXPECT_EQ(picture.rfind("<svg", 0), 0u);
  EXPECT_TRUE(picture.ends_with("</svg>\n"));
}

TEST(LinksPicture, ShowsRanksIfThereIsOneNode) {
  const std::string picture = links_svg(healthy_cluster(1, 3));
  EXPECT_EQ(count_of(picture, "<rect fill="), 12u);
  EXPECT_EQ(count_of(picture, "class=\"empty\""), 6u);
  EXPECT_NE(picture.find("from rank 0 to rank 2: "), std::string::npos);
}

TEST(LinksPicture, OneRankHasNoLinks) {
  EXPECT_NE(links_svg(healthy_cluster(1, 1)).find("no links measured"), std::string::npos);
}

TEST(LinksPicture, SlowLinksAreDarkest) {
  auto ranks = healthy_cluster(3, 1);
  for (LinkFigure& link : ranks[0].links)
    if (link.to == 1) link.seconds *= 100;
  const std::string picture = links_svg(ranks);
  EXPECT_EQ(count_of(picture, "#8c1d18"), 1u);
}

TEST(LinksPicture, DrawsTheNodesWithTheSlowestLinksOfManyNodes) {
  auto ranks = healthy_cluster(70, 1);
  for (RankReport& rank : ranks) rank.facts.host = base::cat("node", rank.rank);
  ranks[69].links[0].seconds *= 100;
  const std::string picture = links_svg(ranks);
  EXPECT_EQ(count_of(picture, "class=\"end\""), 2 * max_drawn);
  EXPECT_NE(picture.find(">node69<"), std::string::npos);
}

}  // namespace
}  // namespace hexad::check_cluster

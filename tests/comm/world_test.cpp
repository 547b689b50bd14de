#include "parallel/comm/world.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "parallel/comm/mpi_library.h"

namespace hexad::comm {

using namespace base;
namespace {

// Sets the environment variables of launchers for a test, and restores them when the test ends.
class Environment {
 public:
  using Values = std::vector<std::pair<std::string, std::string>>;
  explicit Environment(const Values& values) {
    for (const char* name :
         {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALRANKID", "SLURM_STEP_NUM_TASKS", "HEXAD_NODE"}) {
      const char* before = std::getenv(name);
      before_.emplace_back(name, before ? before : "");
      unsetenv(name);
    }
    for (const auto& [name, value] : values) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : before_)
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  Values before_;
};

TEST(World, IsAGroupOfOneWithoutALauncher) {
  const Environment environment(Environment::Values{{"HEXAD_NODE", "node7"}});
  World world;
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.local_rank(), 0);
  EXPECT_EQ(world.node_name(), "node7");
  device::DeviceContext context;
  EXPECT_TRUE(world.group().any(true, context));
}

TEST(World, ReadsTheNumberOfRanksFromTheLauncher) {
  const auto announced = [](const std::string& name, const std::string& value) {
    const Environment environment(Environment::Values{{name, value}});
    return announced_world_size();
  };
  EXPECT_EQ(announced("OMPI_COMM_WORLD_SIZE", "4"), 4);
  EXPECT_EQ(announced("SLURM_STEP_NUM_TASKS", "16"), 16);
  EXPECT_EQ(announced("PMI_SIZE", "1"), 1);
  EXPECT_EQ(announced("HEXAD_NODE", "a"), 1);
  for (const char* text : {"four", " 4", "4 ", "0", "99999999999999999999"}) {
    try {
      announced("OMPI_COMM_WORLD_SIZE", text);
      ADD_FAILURE() << "'" << text << "' is accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.what(), cat("OMPI_COMM_WORLD_SIZE is '", text,
                              "'; expected the number of ranks, a whole number from 1 to 16777216"));
      EXPECT_EQ(e.code(), ExitCode::usage);
    }
  }
}

bool has_open_mpi() { return mpi_library().family == MpiFamily::open_mpi; }

// Runs `program` on three ranks. HEXAD_MPIEXEC is the launcher with its options. Returns the exit status, which is 124
// or 137 if the job does not end within ten seconds. Appends all output to `text`.
int status_of(const std::string& program, std::string& text) {
  const std::string command = cat("timeout -k 2 10 ", HEXAD_MPIEXEC, " -np 3 ", program, " 2>&1");
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> part{};
  while (const size_t n = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), n);
  return WEXITSTATUS(pclose(pipe));
}

int status_when_rank_1_ends_by(const std::string& way, std::string& text) {
  const int status = status_of(cat(HEXAD_DYING_RANK, " ", way), text);
  if (has_open_mpi()) {  // ranks end without MPI_Abort (docs/adr/0012)
    EXPECT_EQ(text.find("MPI_Abort is called"), std::string::npos) << text;
  }
  return status;
}

struct Death {
  const char* way;
  int status;
  const char* said;  // text that Open MPI's mpirun must print
};
// Ways in which rank 1 dies. In the way `lost`, rank 0 ends first, with the code for a lost peer. Even then, the job
// must end with rank 1's code.
class DyingRank : public testing::TestWithParam<Death> {};
INSTANTIATE_TEST_SUITE_P(By, DyingRank,
                         testing::Values(Death{"abort", static_cast<int>(ExitCode::resource), "Exit code:    4"},
                                         Death{"memory", static_cast<int>(ExitCode::resource), "Exit code:    4"},
                                         Death{"throw", static_cast<int>(ExitCode::numeric), "Exit code:    5"},
                                         Death{"lost", static_cast<int>(ExitCode::resource), "Exit code:    4"},
                                         Death{"kill", 137, "on signal 9"}),
                         [](const auto& death) { return death.param.way; });

TEST_P(DyingRank, EndsTheJobWithinTenSeconds) {
  const Environment environment(Environment::Values{});
  std::string text;
  const bool killed = GetParam().status == 137;
  // MPICH's launcher returns the number of the signal if a signal killed a rank. Ranks that fail in another way call
  // MPI_Abort, whose code becomes the exit code of the job.
  const int status_with_mpich = killed ? SIGKILL : GetParam().status;
  const std::string said_with_mpich = killed ? "(signal 9)" : "MPI_Abort is called";
  EXPECT_EQ(status_when_rank_1_ends_by(GetParam().way, text), has_open_mpi() ? GetParam().status : status_with_mpich)
      << text;
  EXPECT_NE(text.find(has_open_mpi() ? std::string(GetParam().said) : said_with_mpich), std::string::npos) << text;
}

// Simulates ranks that were not started by Open MPI's mpirun.
TEST(AnotherLauncher, IsAskedToEndTheJob) {
  const Environment environment(Environment::Values{});
  std::string text;
  EXPECT_EQ(status_of(cat("env -u OMPI_COMM_WORLD_SIZE PMI_SIZE=3 ", HEXAD_DYING_RANK, " abort"), text),
            static_cast<int>(ExitCode::resource))
      << text;
  EXPECT_NE(text.find("MPI_Abort is called"), std::string::npos) << text;
}

class SilentRank : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(By, SilentRank, testing::Values("stop", "hang"), [](const auto& way) { return way.param; });

TEST_P(SilentRank, IsNamedAndTheWholeJobEnds) {
  const Environment environment(Environment::Values{});
  std::string text;
  EXPECT_EQ(status_when_rank_1_ends_by(GetParam(), text), static_cast<int>(ExitCode::communication)) << text;
  EXPECT_NE(text.find("hang: 0.5 s in operation 1 of group world (3 ranks), all_reduce of f32 [256] at "
                      "comm/dying_rank.cpp:"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("no message arrives from rank 1; to blame: rank 1 (host "), std::string::npos) << text;
}

TEST(RanksThatDisagree, AreNamedWithTheirCalls) {
  const Environment environment(Environment::Values{});
  std::string text;
  EXPECT_EQ(status_when_rank_1_ends_by("disagree", text), static_cast<int>(ExitCode::communication)) << text;
  EXPECT_NE(text.find("[world] ranks disagree about operation 1: rank "), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1 calls all_reduce of f32 [512] at comm/dying_rank.cpp:"), std::string::npos) << text;
}

TEST(AnMpiWithoutThreads, IsRefusedWithItsLevelAndTheRequiredLevel) {
  const Environment environment(Environment::Values{});
  std::string text;
  EXPECT_EQ(status_of(HEXAD_SINGLE_THREADED_MPI, text), static_cast<int>(ExitCode::communication)) << text;
  EXPECT_NE(text.find("MPI_Init_thread provides MPI_THREAD_SINGLE, but one of several threads calls MPI here, which "
                      "needs MPI_THREAD_FUNNELED or more"),
            std::string::npos)
      << text;
}

TEST(MismatchedSizes, AreReportedWithRankGroupAndOperation) {
  const Environment environment(Environment::Values{});
  std::string text;
  EXPECT_EQ(status_when_rank_1_ends_by("mismatch", text), static_cast<int>(ExitCode::communication)) << text;
  // Any rank may detect the failure first. The launcher may then end the other ranks before they report more.
  EXPECT_NE(text.find("[world] all_reduce of f32 ["), std::string::npos) << text;
  EXPECT_NE(text.find("receive from rank"), std::string::npos) << text;
}

}  // namespace
}  // namespace hexad::comm

#include "tools/replay/run_table.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/files/file.h"
#include "tools/replay/calibrate_profile.h"

namespace tessera {
namespace {

/// A table of this test that goes with it.
class Table {
 public:
  Table(const std::string& name, const std::string& text)
      : path_(std::filesystem::temp_directory_path() / ("tessera_table_" + name + ".csv")) {
    write_file(path_, text);
  }
  ~Table() { std::filesystem::remove(path_); }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  std::vector<TableRun> runs() const { return read_run_table(path_); }

 private:
  std::filesystem::path path_;
};

void expect_refused(const Table& table, const std::string& words) {
  try {
    table.runs();
    FAIL() << "no error about " << words;
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBadConfig);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(RunTable, ARowIsARunWithItsPlanAndWhatItTook) {
  const Table table("row",
                    "# from a paper\n"
                    "name,layers,width,heads,context,vocabulary,batch,micro_batch,pp,dp,tp,"
                    "recompute,precision,cluster,runtime,step_ms,memory_gib\n"
                    "a,4,256,8,128,1024,64,4,2,4,1,full,f16,8xa100-80g,megatron,250,1.5\n");
  const TableRun run = table.runs().front();
  EXPECT_EQ(run.name, "a");
  EXPECT_EQ(run.config.model.layers, 4);
  EXPECT_EQ(run.config.model.vocabulary, 1024);
  EXPECT_EQ(run.config.train.batch, 64);
  EXPECT_EQ(run.preset, "pp=2,dp=4,recompute=full,micro_batches=4");
  EXPECT_EQ(run.cluster, "8xa100-80g");
  EXPECT_EQ(run.runtime, "megatron");
  EXPECT_EQ(run.measured, Seconds(0.25));
  EXPECT_EQ(run.memory, Bytes(3 << 29));
}

// 2 x 4 devices, 64 x 128 tokens a step.
TEST(RunTable, TokensPerSecondOfADeviceGiveTheStep) {
  const Table table("tokens",
                    "hidden,num_layers,num_heads,seq,vocab,global_batch,dp,tp,cluster,"
                    "tokens_per_s_gpu\n"
                    "256,2,8,128,1024,64,2,4,8xa100-80g,2048\n");
  const TableRun run = table.runs().front();
  EXPECT_EQ(run.config.model.width, 256);
  EXPECT_DOUBLE_EQ(run.measured.value(), 64.0 * 128 / (2048 * 8));
}

TEST(RunTable, ACellInQuotationMarksMayHaveCommas) {
  const Table table("quotes",
                    "name,layers,width,heads,context,vocabulary,batch,cluster,step_s\n"
                    "\"a, b\",2,256,8,128,1024,8,1xa100-80g,1\n");
  EXPECT_EQ(table.runs().front().name, "a, b");
}

TEST(RunTable, ASkippedRowNeedsNothingElse) {
  const Table table("skipped", "name,cluster,skip\na,,8-bit floats\n");
  EXPECT_EQ(table.runs().front().skipped, "8-bit floats");
}

TEST(RunTable, WrongCellsAreRefusedWithTheirRow) {
  expect_refused(
      Table("number", "layers,width,heads,batch,cluster,step_s\n2,wide,8,8,1xa100-80g,1\n"),
      "width = 'wide'");
  expect_refused(Table("step",
                       "layers,width,heads,vocabulary,batch,cluster\n2,256,8,64,8,"
                       "1xa100-80g\n"),
                 "no measured step");
  expect_refused(Table("count", "layers,width\n2\n"), "has 1 cells");
  expect_refused(Table("batch",
                       "layers,width,heads,vocabulary,batch,micro_batch,cluster,step_s\n"
                       "2,256,8,64,9,2,1xa100-80g,1\n"),
                 "micro-batches of 2");
  expect_refused(Table("empty", "# nothing\n"), "no run");
}

/// Small runs of GPTs, whose steps are those of a profile.
std::vector<ReplayedRun> planted_runs(const RuntimeProfile& planted) {
  std::string table =
      "layers,width,heads,context,vocabulary,batch,micro_batch,dp,tp,precision,cluster,step_s\n";
  for (const std::vector<std::string>& row :
       std::vector<std::vector<std::string>>{{"1024", "16", "512", "64", "8", "8", "1"},
                                             {"1024", "16", "512", "64", "8", "4", "2"},
                                             {"1024", "16", "512", "8", "1", "8", "1"},
                                             {"2048", "16", "256", "64", "16", "4", "1"},
                                             {"2048", "16", "256", "32", "16", "2", "2"},
                                             {"256", "8", "64", "4", "1", "4", "1"},
                                             {"256", "8", "64", "2", "1", "2", "2"},
                                             {"2048", "16", "1024", "16", "4", "4", "1"},
                                             {"4096", "32", "1024", "16", "4", "2", "4"}})
    table += "2," + row[0] + "," + row[1] + "," + row[2] + ",1024," + row[3] + "," + row[4] + "," +
             row[5] + "," + row[6] + ",f16,8xa100-80g,1\n";
  std::vector<ReplayedRun> runs;
  for (TableRun& row : Table("planted", table).runs()) {
    ReplayedRun run(row);
    row.measured = run.predict(planted, false).step;
    runs.emplace_back(std::move(row));
  }
  return runs;
}

// Nine runs tell at most three numbers; those that nothing else explains are found.
TEST(CalibrateProfile, FindsPlantedNumbersAgain) {
  const RuntimeProfile start = *find_runtime_profile("megatron");
  RuntimeProfile planted = start;
  planted.host = Seconds(1.3 * start.host.value());
  planted.reach.products *= 0.85;
  std::vector<ReplayedRun> runs = planted_runs(planted);
  const CalibratedProfile found = calibrate_profile(runs, start, {});
  EXPECT_NEAR(found.profile.host.value() / planted.host.value(), 1, 0.05);
  EXPECT_NEAR(found.profile.reach.products / planted.reach.products, 1, 0.05);
  for (const ProfileRun& run : found.runs)
    EXPECT_NEAR(run.after.value() / run.measured.value(), 1, 0.05) << run.name;
}

}  // namespace
}  // namespace tessera

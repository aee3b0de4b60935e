// A process makes only the rows that its ranks read, and computes the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <set>

#include "base/files/file.h"
#include "base/testing/test_folder.h"
#include "runtime/comm/network.h"
#include "runtime/comm/testing/local_transport.h"
#include "runtime/comm/testing/transport_suite.h"
#include "task_graph/tasks/input_rows.h"
#include "training/data/npy_writer.h"
#include "training/engine/predictions.h"
#include "training/engine/testing/own_network.h"
#include "training/engine/testing/runs.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The rows of the 12 of a batch that each rank reads in a training step.
std::vector<std::vector<Range>> rows_by_rank(const Plan& plan) {
  const Engine engine(distance_network(), distance_settings(), plan, pairs_of_points());
  std::vector<std::vector<Range>> rows;
  for (const Rank rank : plan.ranks())
    rows.push_back(rows_read(engine.compiled().tasks, std::array{rank}));
  return rows;
}

TEST(RowsRead, AreThoseOfTheDataParallelPart) {
  EXPECT_THAT(rows_by_rank(distance_plan("dp2")),
              ElementsAre(ElementsAre(Range{0, 6}), ElementsAre(Range{6, 12})));
  EXPECT_THAT(rows_by_rank(distance_plan("dp2-tp2")),
              ElementsAre(ElementsAre(Range{0, 6}), ElementsAre(Range{0, 6}),
                          ElementsAre(Range{6, 12}), ElementsAre(Range{6, 12})));
  EXPECT_THAT(rows_by_rank(distance_plan("tp2")),
              ElementsAre(ElementsAre(Range{0, 12}), ElementsAre(Range{0, 12})));
}

// Three micro-batches of 4 rows, each divided over the two ranks.
TEST(RowsRead, OfMicroBatchesAreThePartsOfEach) {
  EXPECT_THAT(rows_by_rank(distance_plan("dp2-m3")),
              ElementsAre(ElementsAre(Range{0, 2}, Range{4, 6}, Range{8, 10}),
                          ElementsAre(Range{2, 4}, Range{6, 8}, Range{10, 12})));
}

TEST(RowsRead, FollowTheWeightsOfParts) {
  Plan plan = distance_plan("dp2");
  plan.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("dp=2:1")));
  EXPECT_THAT(rows_by_rank(plan), ElementsAre(ElementsAre(Range{0, 8}), ElementsAre(Range{8, 12})));
}

// The last stage reads the distances, the first one the points, the one between nothing.
TEST(RowsRead, OfAStageWithoutInputsAreNone) {
  Plan plan = distance_plan("pp2");
  const auto one = [](Rank rank) {
    return std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"one"},
                                        std::vector<Rank>{rank});
  };
  plan.meshes = {{"a", one(0)}, {"b", one(1)}, {"c", one(2)}};
  plan.marks = {stage("squares", "a"), stage("apart", "a"), stage("first.*", "b"),
                stage("second.*", "c")};
  EXPECT_THAT(rows_by_rank(plan),
              ElementsAre(ElementsAre(Range{0, 12}), IsEmpty(), ElementsAre(Range{0, 12})));
}

TEST(RowsRead, OfAllRanksTogetherAreRangesThatDoNotTouch) {
  const Engine engine(distance_network(), distance_settings(), distance_plan("dp2-m3"),
                      pairs_of_points());
  const std::vector<Rank> both{0, 1};
  EXPECT_THAT(rows_read(engine.compiled().tasks, both), ElementsAre(Range{0, 12}));
}

TEST(OtherRows, AreTheGaps) {
  EXPECT_THAT(other_rows({}, 3), ElementsAre(Range{0, 3}));
  EXPECT_THAT(other_rows(std::vector<Range>{{0, 3}}, 3), IsEmpty());
  EXPECT_THAT(other_rows(std::vector<Range>{{1, 2}, {4, 5}}, 6),
              ElementsAre(Range{0, 1}, Range{2, 4}, Range{5, 6}));
}

/// Another dataset, which notes the rows that are written, and how many.
class Watched : public Dataset {
 public:
  explicit Watched(DatasetPtr whole) : Dataset(whole->fields()), whole_(std::move(whole)) {}
  int64_t samples() const override { return whole_->samples(); }
  uint64_t fingerprint() const override { return whole_->fingerprint(); }
  void write(int64_t sample, int64_t row, Batch& batch) const override {
    whole_->write(sample, row, batch);
    const std::lock_guard lock(mutex_);
    rows_.insert(row);
    ++written_;
  }

  /// The loader writes batches ahead, so their number is not known; the rows are.
  std::set<int64_t> rows() const {
    const std::lock_guard lock(mutex_);
    return rows_;
  }
  int64_t written() const {
    const std::lock_guard lock(mutex_);
    return written_;
  }

 private:
  DatasetPtr whole_;
  mutable std::mutex mutex_;
  mutable std::set<int64_t> rows_;
  mutable int64_t written_ = 0;
};

/// What a process read, and what it computed.
struct Seen {
  std::set<int64_t> train, held_out, predicted;
  int64_t held_out_written = 0;
  std::vector<double> losses;
  Evaluation evaluation;
  std::vector<float> predictions;
};

/// Three steps, an evaluation of two batches, and predictions for 11 samples, in batches of 8.
Seen run_of(const std::string& plan, RuntimeOptions runtime) {
  const RunConfig config = tiny_gpt();
  const auto text = small_text();
  auto data = std::make_shared<RunData>(*text);
  const auto train = std::make_shared<const Watched>(text->train),
             held_out = std::make_shared<const Watched>(text->held_out);
  data->train = train;
  data->held_out = held_out;
  Engine engine(config, plan_of("gpt", plan), data, {.runtime = std::move(runtime)});
  Seen seen;
  for (int step = 0; step < 3; ++step) seen.losses.push_back(engine.step().loss);
  seen.evaluation = engine.evaluate(2);
  const Watched own(std::make_shared<const SampleRange>(text->held_out, Range{0, 11}));
  seen.predictions = predict_all(engine, own).values;
  seen.train = train->rows();
  seen.held_out = held_out->rows();
  seen.held_out_written = held_out->written();
  seen.predicted = own.rows();
  return seen;
}

std::vector<Seen> run_by(int processes, const std::string& plan) {
  std::vector<Seen> seen(static_cast<size_t>(processes));
  testing_transport::on_processes(
      make_local_transports(processes), [&](std::unique_ptr<Transport> mine) {
        const auto network = std::make_shared<ProcessNetwork>(std::move(mine));
        seen[static_cast<size_t>(network->process())] = run_of(plan, {.network = network});
      });
  return seen;
}

const std::set<int64_t> kAll{0, 1, 2, 3, 4, 5, 6, 7}, kFirst{0, 1, 2, 3}, kSecond{4, 5, 6, 7};

void expect_rows(const Seen& seen, const std::set<int64_t>& rows) {
  EXPECT_EQ(seen.train, rows);
  EXPECT_EQ(seen.held_out, rows);
  EXPECT_EQ(seen.held_out_written, 2 * std::ssize(rows));
  EXPECT_EQ(seen.predicted, rows);
}

// Eleven rows in batches of 8: no more than a batch is in memory.
TEST(PredictionFile, HasTheRowsAsTheyAreMade) {
  const auto text = small_text();
  Engine engine(tiny_gpt(), plan_of("gpt", "dp2"), text);
  const SampleRange own(text->held_out, Range{0, 11});
  const Predictions all = predict_all(engine, own);
  const TestFolder folder;
  std::vector<int64_t> rows;
  PredictionFile npy(folder / "a.npy", PredictionKind::kLogits, 11),
      lines(folder / "a.jsonl", PredictionKind::kClasses, 11);
  predict_each(engine, own, [&](const Predictions& next) {
    rows.push_back(next.rows());
    npy.append(next);
    lines.append(next);
  });
  npy.finish();
  lines.finish();
  EXPECT_EQ(rows, (std::vector<int64_t>{8, 3}));
  EXPECT_EQ(npy.shape(), all.shape);
  EXPECT_EQ(read_file(folder / "a.npy"), npy_bytes(all.values, all.shape));
  EXPECT_EQ(read_file(folder / "a.jsonl"),
            json_lines(likeliest_classes(all), PredictionKind::kClasses));
}

TEST(RowsOfAProcess, AreThoseOfItsRanksAndGiveTheBitsOfAllRows) {
  for (const char* plan : {"dp2", "dp2-tp2", "tp2"}) {
    SCOPED_TRACE(plan);
    const Seen threads = run_of(plan, {});
    expect_rows(threads, kAll);
    EXPECT_GT(threads.evaluation.bytes, 0);
    const std::vector<Seen> seen = run_by(2, plan);
    const bool is_divided = std::string(plan) != "tp2";
    expect_rows(seen[0], is_divided ? kFirst : kAll);
    expect_rows(seen[1], is_divided ? kSecond : kAll);
    for (const Seen& process : seen) {
      EXPECT_EQ(process.losses, threads.losses);
      EXPECT_EQ(process.evaluation.loss, threads.evaluation.loss);
      EXPECT_EQ(process.evaluation.tokens, threads.evaluation.tokens);
      EXPECT_EQ(process.evaluation.bytes, threads.evaluation.bytes);
      EXPECT_EQ(process.predictions, threads.predictions);
    }
  }
}

// Rows that two processes read count once in the bytes of an evaluation.
TEST(RowsOfAProcess, OfReplicasCountOnceInAnEvaluation) {
  const Seen threads = run_of("dp2-tp2", {});
  for (const Seen& process : run_by(4, "dp2-tp2"))
    EXPECT_EQ(process.evaluation.bytes, threads.evaluation.bytes);
}

TEST(RowsOfAProcess, AreAllInABatchThatTheCallerGets) {
  const auto data = small_text();
  Engine whole(tiny_gpt(), plan_of("gpt", "dp2"), data);
  whole.step();
  const auto expected = whole.next_batch().at("tokens").values<int32_t>();
  testing_transport::on_processes(make_local_transports(2), [&](std::unique_ptr<Transport> mine) {
    const auto network = std::make_shared<ProcessNetwork>(std::move(mine));
    Engine engine(tiny_gpt(), plan_of("gpt", "dp2"), data, {.runtime = {.network = network}});
    engine.step();
    const auto tokens = engine.next_batch().at("tokens").values<int32_t>();
    EXPECT_TRUE(std::ranges::equal(tokens, expected));
  });
}

// The loader has made batches for the first plan; the second one needs other rows of them.
TEST(RowsOfAProcess, FollowTheNextPlan) {
  const auto losses_of = [](RuntimeOptions runtime) {
    Engine engine(tiny_gpt(), plan_of("gpt", "dp2"), small_text(), {.runtime = std::move(runtime)});
    std::vector<double> losses{engine.step().loss, engine.step().loss};
    const Batch& kept = engine.next_batch();
    engine.switch_plan(plan_of("gpt", "tp2"));
    losses.push_back(engine.step(kept).loss);
    losses.push_back(engine.step().loss);
    engine.switch_plan(plan_of("gpt", "dp2"));
    for (int step = 0; step < 5; ++step) losses.push_back(engine.step().loss);
    return losses;
  };
  const std::vector<double> threads = losses_of({});
  testing_transport::on_processes(make_local_transports(2), [&](std::unique_ptr<Transport> mine) {
    const auto network = std::make_shared<ProcessNetwork>(std::move(mine));
    EXPECT_EQ(losses_of({.network = network}), threads);
  });
}

}  // namespace
}  // namespace tessera

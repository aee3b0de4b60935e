// A verification in several processes finds what one in one process finds.
#include "training/verify/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "base/error.h"
#include "runtime/comm/network.h"
#include "runtime/comm/testing/local_transport.h"
#include "runtime/comm/testing/transport_suite.h"
#include "training/engine/testing/own_network.h"
#include "training/engine/testing/runs.h"
#include "training/verify/capture.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Fault {
  std::string plan;
  std::string reg;
  Rank rank;
};

Observer planted(const Fault& fault) {
  const Engine engine(distance_network(), distance_settings(), distance_plan(fault.plan),
                      pairs_of_points());
  return fault_on(fault.rank, fault.reg, engine.compiled().tasks);
}

VerifyReport verified(const std::string& plan, const VerifyOptions& options) {
  return verify_plan(distance_network(), distance_settings(), distance_plan(plan),
                     pairs_of_points(), options);
}

/// By process: the report of each, the first of the leader.
std::vector<VerifyReport> verified_by(int processes, const std::string& plan,
                                      const VerifyOptions& options) {
  std::vector<VerifyReport> reports(static_cast<size_t>(processes));
  testing_transport::on_processes(
      make_local_transports(processes), [&](std::unique_ptr<Transport> mine) {
        VerifyOptions of_process = options;
        of_process.runtime.network = std::make_shared<ProcessNetwork>(std::move(mine));
        const int process = of_process.runtime.network->process();
        reports[static_cast<size_t>(process)] = verified(plan, of_process);
      });
  return reports;
}

TEST(VerifyInProcesses, ComparesWhatOneProcessCompares) {
  for (const char* plan : {"dp2", "dp2-tp2", "pp2-m3"}) {
    const VerifyReport threads = verified(plan, {.steps = 2});
    for (const Bytes gathered : {Bytes(1), Bytes(1000), Bytes(32 << 20)}) {
      const std::vector<VerifyReport> reports =
          verified_by(2, plan, {.steps = 2, .gathered = gathered});
      EXPECT_TRUE(reports[0].ok) << plan;
      EXPECT_TRUE(reports[1].ok) << plan;
      EXPECT_EQ(reports[0].tensors, threads.tensors);
      EXPECT_EQ(reports[0].exact_tensors, threads.exact_tensors);
      EXPECT_EQ(reports[0].max_error, threads.max_error);
      EXPECT_EQ(reports[0].serial_losses, threads.serial_losses);
      for (const VerifyReport& report : reports) EXPECT_EQ(report.losses, threads.losses);
    }
  }
}

// A step whose tensors do not fit at a time is executed again from the same state.
TEST(Windows, OfOneOpGiveTheReportOfOneExecution) {
  for (const char* plan : {"dp2-tp2", "pp2-m3"}) {
    int executions = 0;
    const auto count = [&](const VerifyNeed& need) { executions = need.executions; };
    const VerifyReport whole = verified(plan, {.steps = 2, .on_need = count});
    EXPECT_EQ(executions, 1);
    const VerifyReport divided =
        verified(plan, {.steps = 2, .captured = Bytes(1), .on_need = count});
    EXPECT_GT(executions, 5);
    EXPECT_TRUE(divided.ok) << plan;
    EXPECT_EQ(divided.tensors, whole.tensors);
    EXPECT_EQ(divided.exact_tensors, whole.exact_tensors);
    EXPECT_EQ(divided.max_error, whole.max_error);
    EXPECT_EQ(divided.losses, whole.losses);
    EXPECT_EQ(divided.loss_tolerances, whole.loss_tolerances);
  }
}

TEST(Windows, HideNoFault) {
  const Fault fault{"dp2-tp2", "apart", 2};
  const VerifyReport report =
      verified(fault.plan, {.captured = Bytes(1), .before_capture = planted(fault)});
  ASSERT_TRUE(report.first_difference.has_value());
  EXPECT_EQ(report.first_difference->value, fault.reg);
}

class FaultOfARank : public testing::TestWithParam<Fault> {};

TEST_P(FaultOfARank, IsFoundByAllProcessesAsByOne) {
  const VerifyOptions options{.steps = 3, .before_capture = planted(GetParam())};
  const VerifyReport threads = verified(GetParam().plan, options);
  ASSERT_TRUE(threads.first_difference.has_value());
  EXPECT_EQ(threads.first_difference->value, GetParam().reg);
  const std::vector<VerifyReport> reports = verified_by(4, GetParam().plan, options);
  for (const VerifyReport& report : reports) EXPECT_FALSE(report.ok);
  ASSERT_TRUE(reports[0].first_difference.has_value());
  const Difference& mine = *reports[0].first_difference;
  EXPECT_EQ(mine.value, GetParam().reg);
  EXPECT_EQ(mine.placement, threads.first_difference->placement);
  EXPECT_EQ(mine.index, threads.first_difference->index);
  EXPECT_EQ(mine.distributed, threads.first_difference->distributed);
  EXPECT_EQ(mine.serial, threads.first_difference->serial);
}

// A row that one process has; a replica that two have, on the leader and elsewhere; a partial value
// that no process has whole.
INSTANTIATE_TEST_SUITE_P(Planted, FaultOfARank,
                         testing::Values(Fault{"dp4", "apart", 3}, Fault{"dp2-tp2", "apart", 0},
                                         Fault{"dp2-tp2", "apart", 2},
                                         Fault{"dp4", "first.dot.grad.b", 2}));

TEST(VerifyInProcesses, NamesTheReplicasOfTwoProcessesThatDiffer) {
  const VerifyOptions options{.before_capture = planted({"dp2-tp2", "apart", 3})};
  const std::vector<VerifyReport> reports = verified_by(4, "dp2-tp2", options);
  ASSERT_TRUE(reports[0].first_difference.has_value());
  EXPECT_THAT(reports[0].first_difference->placement, HasSubstr("ranks 2 and 3 differ"));
}

TEST(VerifyInProcesses, AnErrorOfTheSerialProgramIsThatOfEveryProcess) {
  TrainingSettings settings = distance_settings();
  settings.optimizer.kind = OptimizerKind::kSgd;
  settings.optimizer.clip_norm = 0;
  settings.optimizer.schedule.peak = 1e3;
  settings.optimizer.weight_decay = 10;  // a weight is multiplied by about -1e4 each step
  std::mutex mutex;
  std::vector<ExitCode> codes;
  testing_transport::on_processes(make_local_transports(2), [&](std::unique_ptr<Transport> mine) {
    const auto network = std::make_shared<ProcessNetwork>(std::move(mine));
    try {
      verify_plan(distance_network(), settings, distance_plan("dp2"), pairs_of_points(),
                  {.steps = 20, .runtime = {.network = network}});
    } catch (const UserError& error) {
      const std::lock_guard lock(mutex);
      codes.push_back(error.exit_code());
    }
  });
  EXPECT_THAT(codes, ElementsAre(ExitCode::kDiverged, ExitCode::kDiverged));
}

/// The gradients of the first of many layers are so small that f32 does not hold their squares.
RunConfig deep_mlp() {
  RunConfig config = tiny_mlp();
  config.model.layers = 40;
  config.model.dropout = 0;
  config.optimizer.clip_norm = 0;
  return config;
}

VerifyReport verified_deep_mlp(const VerifyOptions& options) {
  return verify_plan(deep_mlp(), Plan{}, small_text(), options);
}

TEST(Underflow, MayTakeTheSquaresOfGradients) {
  const VerifyReport report = verified_deep_mlp({.steps = 2});
  EXPECT_TRUE(report.ok) << report.first_difference->value;
}

// The gradients of the last layer are large enough.
TEST(Underflow, HidesNoWrongRoot) {
  const std::string wrong = "hidden.39.weight.adamw.root";
  const Engine engine(deep_mlp(), Plan{}, small_text());
  const TaskGraph& tasks = engine.compiled().tasks;
  const auto scale = [&](Rank, RegisterIndex index, const Coordinate&, const std::byte* data) {
    const Register& reg = tasks.registers[index];
    if (reg.name != wrong) return;
    auto* elements = reinterpret_cast<float*>(const_cast<std::byte*>(data));
    for (int64_t i = 0; i < element_count(reg.type->shape); ++i) elements[i] *= 1.0001F;
  };
  const VerifyReport report = verified_deep_mlp({.before_capture = scale});
  ASSERT_TRUE(report.first_difference.has_value());
  EXPECT_EQ(report.first_difference->value, wrong);
}

TEST(Capture, DividesRegistersIntoGroupsOfBoundedBytes) {
  const Engine engine(distance_network(), distance_settings(), distance_plan("dp2"),
                      pairs_of_points());
  const TaskGraph& tasks = engine.compiled().tasks;
  const std::vector<RegisterIndex> all = in_program_order(tasks);
  EXPECT_EQ(in_groups(all, tasks, Bytes(1 << 30)).size(), 1U);
  EXPECT_EQ(in_groups(all, tasks, Bytes(0)).size(), all.size());
  std::vector<RegisterIndex> joined;
  for (const auto group : in_groups(all, tasks, Bytes(500)))
    joined.insert(joined.end(), group.begin(), group.end());
  EXPECT_EQ(joined, all);
  EXPECT_TRUE(in_groups({}, tasks, Bytes(500)).empty());
}

}  // namespace
}  // namespace tessera

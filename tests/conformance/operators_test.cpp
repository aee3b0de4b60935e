// Every operator of the catalogue in small programs under every kind of plan: what each rank holds
// of each value is what the serial program computes. After a change of the operator `name`:
//
//     conformance_test --gtest_filter='EveryOperator*/name'
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>

#include "compiler/lower/lower.h"
#include "ir/ops/operator.h"
#include "operator_plans.h"
#include "runtime/comm/network.h"
#include "runtime/comm/testing/local_transport.h"
#include "runtime/comm/testing/transport_suite.h"
#include "runtime/runtime/runtime.h"
#include "test_name.h"

namespace tessera::conformance {
namespace {

/// Cases of an operator; each runs under all kinds of plan.
constexpr size_t kCases = 3;

/// The bytes of all variables and results after the steps of the case, by name.
using Bits = std::map<std::string, std::string>;

Bits bits_of(const fuzz::FuzzCase& given, const std::shared_ptr<const TaskGraph>& tasks,
             const RuntimeOptions& options) {
  Runtime runtime(ranks(*tasks), options);
  LoadedProgram& program = runtime.load(tasks);
  for (const Variable& variable : given.graph.variables()) {
    const std::string& name = given.graph.value(variable.value).name;
    runtime.set_variable(name, fuzz::sampled(given, name, given.graph.type(variable.value), 0));
  }
  Bits bits;
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    bits[name] = std::string(reinterpret_cast<const char*>(tensor.data()),
                             static_cast<size_t>(byte_size(tensor.type()).value()));
  };
  TensorMap inputs, results;
  std::map<std::string, const Tensor*> pointers;
  for (int64_t step = 0; step < given.steps; ++step) {
    for (const ValueId input : given.graph.inputs()) {
      const std::string& name = given.graph.value(input).name;
      inputs.insert_or_assign(name, fuzz::sampled(given, name, given.graph.type(input), step));
      pointers[name] = &inputs.at(name);
    }
    runtime.run(program, pointers, results);
  }
  for (const auto& [name, tensor] : results) add("result " + name, tensor);
  for (const std::string& name : runtime.variable_names())
    add("variable " + name, runtime.variable(name));
  return bits;
}

/// The same of the leader of two processes.
Bits bits_of_two_processes(const fuzz::FuzzCase& given,
                           const std::shared_ptr<const TaskGraph>& tasks) {
  Bits bits;
  std::exception_ptr failure;
  std::mutex mutex;
  testing_transport::on_processes(make_local_transports(2), [&](std::unique_ptr<Transport> mine) {
    const auto network = std::make_shared<ProcessNetwork>(std::move(mine));
    try {
      Bits own = bits_of(given, tasks, {.deadline = Seconds(20), .network = network});
      const std::lock_guard lock(mutex);
      if (network->process() == 0) bits = std::move(own);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
  return bits;
}

/// Two processes compute the bits that one computes.
void expect_the_bits_of_one_process(const PlannedOperator& planned) {
  const fuzz::FuzzCase& given = planned.given;
  const Plan plan{.meshes = given.meshes, .marks = given.marks};
  const auto tasks = std::make_shared<const TaskGraph>(compile(given.graph, plan).tasks);
  EXPECT_EQ(bits_of_two_processes(given, tasks), bits_of(given, tasks, {})) << fuzz::to_text(given);
}

void expect_the_serial_result(const PlannedOperator& planned) {
  fuzz::CaseFaults options;
  options.on_refusal = [&] { ADD_FAILURE() << "it does not run in micro-batches"; };
  const std::optional<fuzz::CaseFailure> failure = fuzz::run_case(planned.given, options);
  if (failure) ADD_FAILURE() << failure->text << "\n" << fuzz::to_text(planned.given);
}

class EveryOperator : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryOperator, ComputesTheSerialResultUnderEveryKindOfPlan) {
  std::string applied;
  for (const PlanKind kind : plan_kinds()) {
    int runs = 0;
    for (const operator_testing::OperatorCase& given : cases_of(GetParam(), kCases)) {
      SCOPED_TRACE(operator_testing::to_text(given));
      for (const PlannedOperator& planned : planned_operators(given, kind)) {
        SCOPED_TRACE(std::string(to_text(kind)) + " " + planned.division);
        if (planned.in_two_processes)
          expect_the_bits_of_one_process(planned);
        else
          expect_the_serial_result(planned);
        ++runs;
      }
    }
    if (runs > 0) applied += std::string(to_text(kind)) + " (" + std::to_string(runs) + ") ";
  }
  RecordProperty("kinds_of_plan", applied);
  EXPECT_NE(applied, "");
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const Operator* each : all_operators()) names.emplace_back(each->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(, EveryOperator, ::testing::ValuesIn(operator_names()),
                         [](const auto& given) { return given.param; });

}  // namespace
}  // namespace tessera::conformance

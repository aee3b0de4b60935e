#include "training/verify/internal/reference_step.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "base/threads/on_all_cores.h"
#include "kernels/element_types.h"
#include "training/verify/internal/comparison.h"

namespace tessera {
namespace {

/// Does f32 hold all of them? Infinity itself is in range: masks use it.
bool are_in_range(const std::vector<double>& values) {
  constexpr double kMaxValue = std::numeric_limits<float>::max();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  size_t in_range = 0;  // a count has no branch
  for (const double value : values)
    in_range += std::abs(value) <= kMaxValue || std::abs(value) == kInfinity;
  return in_range == values.size();
}

}  // namespace

bool PerturbedRuns::are_of(const ReferenceValues& given, int64_t given_step) const {
  const auto are_equal = [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.type == b.second.type &&
           a.second.values == b.second.values;
  };
  return step == given_step && std::ranges::equal(state, given, are_equal);
}

void ReferenceStep::run(const ReferenceValues& state, int64_t step, DecisionOperands& decisions,
                        const std::function<void(const Op&)>& on_op) {
  const InterpreterOptions as_decided{.decided_on = &decisions.values()};
  auto plain = std::async(std::launch::async, [&] {
    return interpret(graph_, state, as_decided, std::move(expected_));
  });
  if (!runs_->are_of(state, step)) perturb(state, step, on_op);
  expected_ = plain.get();
  find_changes(decisions);
  // What a plan decides on a wrong operand says nothing about the decisions of a right plan.
  if (const std::optional<std::string> wrong = first_wrong_operand(decisions)) {
    decisions.drop_from(*wrong);
    expected_ = interpret(graph_, state, as_decided, std::move(expected_));
    find_changes(decisions);
  }
  expect_range(step);
}

void ReferenceStep::perturb(const ReferenceValues& state, int64_t step,
                            const std::function<void(const Op&)>& on_op) {
  runs_->step = -1;  // until they are complete
  runs_->own_tolerances.clear();
  const InterpreterOptions perturbed{.perturb = static_cast<uint64_t>(step) + 1,
                                     .tolerances = &runs_->own_tolerances,
                                     .on_op = on_op};  // it takes longer than the plain one
  runs_->first = interpret(graph_, state, perturbed, std::move(runs_->first));
  perturb_more(state, step);
  runs_->state = state;
  runs_->step = step;
}

/// The further perturbations, where some values have 16 bits.
void ReferenceStep::perturb_more(const ReferenceValues& state, int64_t step) {
  const bool has_narrow = std::ranges::any_of(
      graph_.values(), [](const Value& value) { return is_narrow_float(value.type.dtype); });
  std::vector<ReferenceValues>& more = runs_->more;
  more.resize(has_narrow ? kNarrowPerturbations - 1 : 0);
  for (size_t i = 0; i < more.size(); ++i) {
    const uint64_t seed = random_key(static_cast<uint64_t>(step) + 1, std::to_string(i));
    more[i] = interpret(graph_, state, {.perturb = seed}, std::move(more[i]));
  }
}

/// Finds what the perturbations did to each value. What is decided on the operands of the plan has
/// no error of its own: the perturbation may decide otherwise, but the plan may not.
void ReferenceStep::find_changes(const DecisionOperands& decisions) {
  const std::vector<ReferenceValues::const_iterator> values = expected_values();
  const std::set<std::string> decided = decisions.decided_results();
  std::vector<double> changes(values.size());
  on_all_cores(std::ssize(values), [&](int64_t i) {
    const auto& [name, plain] = *values[i];
    if (decided.contains(name)) return;
    changes[i] = largest_change(plain, runs_->first.at(name));
    for (const ReferenceValues& other : runs_->more)
      changes[i] = std::max(changes[i], largest_change(plain, other.at(name)));
  });
  changes_ = runs_->own_tolerances;
  for (size_t i = 0; i < values.size(); ++i) changes_[values[i]->first] += changes[i];
  // What only moves or chooses elements passes on what its operands may be off, of which the
  // perturbation of one number alone says little.
  for (const Op& op : graph_.ops())
    for (ValueId output : op.outputs) {
      const std::string& name = graph_.value(output).name;
      const auto own = runs_->own_tolerances.find(name);
      if (own == runs_->own_tolerances.end() || own->second > 0 || decided.contains(name)) continue;
      if (graph_.type(output).dtype != DType::kF32) continue;
      for (ValueId input : op.inputs)
        if (graph_.type(input).dtype == DType::kF32)
          changes_[name] = std::max(changes_[name], changes_[graph_.value(input).name]);
    }
}

std::vector<ReferenceValues::const_iterator> ReferenceStep::expected_values() const {
  std::vector<ReferenceValues::const_iterator> values;
  for (auto value = expected_.cbegin(); value != expected_.cend(); ++value) values.push_back(value);
  return values;
}

/// The first operand of a decision, in the order of the serial program, that differs from that of
/// the interpreter by more than its tolerance.
std::optional<std::string> ReferenceStep::first_wrong_operand(
    const DecisionOperands& decisions) const {
  const std::vector<std::string> names = decisions.names();
  std::vector<char> is_wrong(names.size());
  on_all_cores(std::ssize(names), [&](int64_t i) {
    const ReferenceTensor& wanted = expected_.at(names[i]);
    const std::vector<double>& got = decisions.values().at(names[i]).values;
    ElementComparison comparison(wanted.values, tolerance(names[i]), wanted.type.dtype);
    is_wrong[i] = comparison.first_different(got, {}) < got.size();
  });
  const auto first = std::ranges::find(is_wrong, char{true});
  if (first == is_wrong.end()) return std::nullopt;
  return names[first - is_wrong.begin()];
}

/// NaN differs from NaN, so a run that diverges would look like a fault of the plan.
void ReferenceStep::expect_range(int64_t step) const {
  const std::vector<ReferenceValues::const_iterator> values = expected_values();
  std::vector<char> is_finite(values.size());
  on_all_cores(std::ssize(values), [&](int64_t i) {
    const auto& [name, plain] = *values[i];
    is_finite[i] = are_in_range(plain.values) && are_in_range(runs_->first.at(name).values) &&
                   std::isfinite(changes_.at(name));
  });
  const auto found = std::ranges::find(is_finite, char{false});
  if (found == is_finite.end()) return;
  throw UserError("the serial program diverged: '" + values[found - is_finite.begin()]->first +
                      "' left the range of f32 in step " + std::to_string(step + 1),
                  "a plan can be compared only with numbers that have a finite rounding error",
                  "lower optimizer.learning_rate, or compare fewer steps by --steps",
                  ExitCode::kDiverged);
}

}  // namespace tessera

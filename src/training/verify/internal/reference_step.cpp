#include "training/verify/internal/reference_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "base/threads/on_all_cores.h"
#include "kernels/element_types.h"

namespace tessera {
namespace {

/// Operations an element from which an op is a large product, which has threads of its own.
constexpr double kProductFlops = 64;
/// Of a core, for estimates: operations of products, and elements of all else with its comparison.
constexpr double kProductRate = 5e9, kElementRate = 3e7;
/// Fewer operations are one thread's.
constexpr double kThreadedFlops = 0x1p24;

Bytes reference_bytes(const TensorType& type) {
  return Bytes(element_count(type.shape) * static_cast<int64_t>(sizeof(double)));
}

Bytes times(Bytes bytes, int count) {
  return Bytes(bytes.value() * count);
}

bool is_state(const Graph& graph, ValueId value) {
  return graph.value(value).producer.index < 0;
}

int64_t elements_of(const Graph& graph, const Op& op) {
  int64_t elements = 0;
  for (ValueId input : op.inputs) elements += element_count(graph.type(input).shape);
  for (ValueId output : op.outputs) elements += element_count(graph.type(output).shape);
  return elements;
}

/// An op that runs on several threads: its interpretations follow each other, so that only one of
/// them has copies of its operands at a time.
bool is_large_product(const Graph& graph, const Op& op) {
  const Flops flops = find_operator(graph, op.kind).work(view(graph, op)).flops;
  return flops.value() > kThreadedFlops &&
         flops.value() > kProductFlops * static_cast<double>(elements_of(graph, op));
}

/// Does f32 hold all of them? Infinity itself is in range: masks use it.
bool are_in_range(const std::vector<double>& values) {
  constexpr double kMaxValue = std::numeric_limits<float>::max();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  size_t in_range = 0;  // a count has no branch
  for (const double value : values)
    in_range += std::abs(value) <= kMaxValue || std::abs(value) == kInfinity;
  return in_range == values.size();
}

void free_memory(ReferenceTensor& tensor) {
  std::vector<double>().swap(tensor.values);
}

}  // namespace

// ---- the pieces of a program ----

ReferencePieces::ReferencePieces(const Graph& graph, Bytes limit)
    : graph_(graph), last_reader_(graph.values().size(), -1), first_reader_(last_reader_) {
  const auto& ops = graph.ops();
  for (int i = 0; i < std::ssize(ops); ++i)
    for (ValueId input : ops[i].inputs) {
      last_reader_[input.index] = i;
      if (first_reader_[input.index] < 0) first_reader_[input.index] = i;
    }
  Bytes bytes(0);
  for (int i = 0; i < std::ssize(ops); ++i) {
    Bytes mine(0);
    for (ValueId output : ops[i].outputs) mine += reference_bytes(graph.type(output));
    for (ValueId input : ops[i].inputs)
      if (is_state(graph, input)) mine += reference_bytes(graph.type(input));
    const bool begins =
        pieces_.empty() || bytes + mine > limit || !decision_of(graph, ops[i]).results.empty();
    if (begins) {
      pieces_.push_back({i, i});
      bytes = Bytes(0);
    }
    pieces_.back().end = i + 1;
    bytes += mine;
  }
}

OpId ReferencePieces::position(ValueId value) const {
  const OpId producer = graph_.value(value).producer;
  return producer.index >= 0 ? producer : OpId{std::max(first_reader_[value.index], 0)};
}

std::vector<ValueId> ReferencePieces::state_of(const Piece& piece) const {
  std::vector<ValueId> values;
  for (int i = piece.begin; i < piece.end; ++i)
    for (ValueId input : graph_.ops()[i].inputs)
      if (is_state(graph_, input)) values.push_back(input);
  if (piece.begin == 0)
    for (int i = 0; i < std::ssize(first_reader_); ++i)
      if (first_reader_[i] < 0 && is_state(graph_, ValueId{i})) values.push_back(ValueId{i});
  return values;
}

std::vector<ValueId> ReferencePieces::last_used_in(const Piece& piece) const {
  std::vector<ValueId> values;
  for (int i = piece.begin; i < piece.end; ++i) {
    const Op& op = graph_.ops()[i];
    for (ValueId input : op.inputs)
      if (last_reader_[input.index] == i) values.push_back(input);
    for (ValueId output : op.outputs)
      if (last_reader_[output.index] < 0) values.push_back(output);
  }
  std::ranges::sort(values, {}, &ValueId::index);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

Bytes ReferencePieces::peak(int interpretations) const {
  Bytes peak(0), live(0);
  for (const Piece& piece : pieces_) {
    Bytes state(0), of_op(0);
    const std::vector<ValueId> read = state_of(piece);
    for (const ValueId value : std::set<ValueId>(read.begin(), read.end()))
      state += reference_bytes(graph_.type(value));
    for (int i = piece.begin; i < piece.end; ++i) {
      const Op& op = graph_.ops()[i];
      Bytes results(0), operands(0);
      for (ValueId output : op.outputs) results += reference_bytes(graph_.type(output));
      for (ValueId input : op.inputs) operands += reference_bytes(graph_.type(input));
      live += times(results, interpretations);
      // The tolerances of the results; a product has copies of its operands, and of their absolute
      // values for its tolerances.
      const Bytes extra = is_large_product(graph_, op) ? operands + operands + results
                                                       : times(results, interpretations - 1);
      of_op = std::max(of_op, extra);
    }
    peak = std::max(peak, live + state + of_op);
    for (ValueId value : last_used_in(piece))
      if (!is_state(graph_, value))
        live = live - times(reference_bytes(graph_.type(value)), interpretations);
  }
  return peak;
}

// ---- a step ----

namespace {

size_t count_interpretations(const Graph& graph, bool ranks_round) {
  const bool has_narrow = std::ranges::any_of(
      graph.values(), [](const Value& value) { return is_narrow_float(value.type.dtype); });
  return size_t{1} + (has_narrow ? kNarrowPerturbations : 1) + (ranks_round ? 2 : 0);
}

}  // namespace

ReferenceStep::ReferenceStep(const Graph& graph, const ReferencePieces& pieces,
                             std::vector<ValueId> rounded_by_ranks)
    : graph_(graph),
      pieces_(pieces),
      interpretations_(count_interpretations(graph, !rounded_by_ranks.empty()),
                       Values(graph.values().size())),
      state_(graph.values().size()),
      changes_(graph.values().size()) {
  // A quarter of the spacing, since tolerances are four times the change.
  for (ValueId value : rounded_by_ranks)
    common_share_[graph.value(value).name] = 2 * unit_roundoff(graph.type(value).dtype) / kSafety;
}

double ReferenceStep::seconds() const {
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  const auto count = static_cast<double>(interpretations_.size());
  double products = 0, elements = 0;
  for (const Op& op : graph_.ops()) {
    if (is_large_product(graph_, op))
      products += find_operator(graph_, op.kind).work(view(graph_, op)).flops.value();
    else
      elements += static_cast<double>(elements_of(graph_, op));
  }
  // A perturbed interpretation computes a product twice: its tolerance is one of absolute values.
  return products * (2 * count - 1) / (kProductRate * cores) +
         elements * count / (kElementRate * std::min(cores, count));
}

void ReferenceStep::begin(State state, int64_t step) {
  given_ = std::move(state);
  step_ = step;
  std::ranges::fill(changes_, 0.0);
  for (Values& values : interpretations_)
    for (ReferenceTensor& value : values) free_memory(value);
}

const ReferenceTensor& ReferenceStep::at(size_t interpretation, ValueId value) const {
  const ReferenceTensor& tensor =
      is_state(value) ? state_[value.index] : interpretations_[interpretation][value.index];
  ensure(tensor.values.size() == static_cast<size_t>(element_count(graph_.type(value).shape)),
         [&] { return "the reference has '" + graph_.value(value).name + "' until it is read"; });
  return tensor;
}

void ReferenceStep::run(const ReferencePieces::Piece& piece, const DecisionOperands& decisions,
                        const std::map<std::string, double>& more_rounding) {
  own_tolerances_.clear();
  const auto interpret_one = [&](int64_t i) {
    InterpreterOptions options = options_of(static_cast<size_t>(i), decisions);
    options.more_rounding = &more_rounding;
    interpret(static_cast<size_t>(i), piece, options);
  };
  const bool is_product =
      piece.end == piece.begin + 1 && is_large_product(graph_, graph_.ops()[piece.begin]);
  if (is_product)
    for (int64_t i = 0; i < std::ssize(interpretations_); ++i) interpret_one(i);
  else
    on_all_cores(std::ssize(interpretations_), interpret_one);
  find_changes(piece, decisions);
  expect_range(piece);
}

void ReferenceStep::read_state(const ReferencePieces::Piece& piece) {
  for (const ValueId value : pieces_.state_of(piece))
    if (state_[value.index].values.empty()) state_[value.index] = given_(graph_.value(value).name);
}

InterpreterOptions ReferenceStep::options_of(size_t interpretation,
                                             const DecisionOperands& decisions) {
  if (interpretation == 0) return {.decided_on = &decisions.values()};
  const auto key = static_cast<uint64_t>(step_) + 1;
  if (interpretation == 1) return {.perturb = key, .tolerances = &own_tolerances_};
  InterpreterOptions options{.perturb = random_key(key, std::to_string(interpretation - 2))};
  const size_t narrow = interpretations_.size() - (common_share_.empty() ? size_t{0} : size_t{2});
  if (interpretation >= narrow) {
    options.common_share = &common_share_;
    options.away_from_zero = interpretation == narrow;
  }
  return options;
}

void ReferenceStep::interpret(size_t interpretation, const ReferencePieces::Piece& piece,
                              const InterpreterOptions& options) {
  Values& values = interpretations_[interpretation];
  for (int i = piece.begin; i < piece.end; ++i) {
    const Op& op = graph_.ops()[i];
    std::vector<const ReferenceTensor*> operands;
    for (ValueId input : op.inputs) operands.push_back(&at(interpretation, input));
    std::vector<ReferenceTensor> results = interpret_op(graph_, op, std::move(operands), options);
    for (size_t k = 0; k < results.size(); ++k) values[op.outputs[k].index] = std::move(results[k]);
  }
}

/// Finds what the perturbations did to each value. What is decided on the operands of the plan has
/// no error of its own: the perturbation may decide otherwise, but the plan may not.
void ReferenceStep::find_changes(const ReferencePieces::Piece& piece,
                                 const DecisionOperands& decisions) {
  std::vector<ValueId> made;
  for (int i = piece.begin; i < piece.end; ++i) {
    const Op& op = graph_.ops()[i];
    for (ValueId output : op.outputs)
      if (!decisions.decides(op, output)) made.push_back(output);
  }
  on_all_cores(std::ssize(made), [&](int64_t i) {
    double& change = changes_[made[i].index];
    for (size_t other = 1; other < interpretations_.size(); ++other)
      change = std::max(change, largest_change(at(0, made[i]), at(other, made[i])));
  });
  for (int i = piece.begin; i < piece.end; ++i) {
    const Op& op = graph_.ops()[i];
    for (ValueId output : op.outputs)
      if (const auto own = own_tolerances_.find(graph_.value(output).name);
          own != own_tolerances_.end())
        changes_[output.index] += own->second;
    pass_on_changes(op, decisions);
  }
}

/// What only moves or chooses elements passes on what its operands may be off, of which the
/// perturbation of one number alone says little.
void ReferenceStep::pass_on_changes(const Op& op, const DecisionOperands& decisions) {
  for (ValueId output : op.outputs) {
    const auto own = own_tolerances_.find(graph_.value(output).name);
    if (own == own_tolerances_.end() || own->second > 0 || decisions.decides(op, output)) continue;
    if (graph_.type(output).dtype != DType::kF32) continue;
    for (ValueId input : op.inputs)
      if (graph_.type(input).dtype == DType::kF32)
        changes_[output.index] = std::max(changes_[output.index], changes_[input.index]);
  }
}

/// NaN differs from NaN, so a run that diverges would look like a fault of the plan.
void ReferenceStep::expect_range(const ReferencePieces::Piece& piece) const {
  std::vector<ValueId> made;
  for (int i = piece.begin; i < piece.end; ++i)
    made.insert(made.end(), graph_.ops()[i].outputs.begin(), graph_.ops()[i].outputs.end());
  std::vector<char> is_finite(made.size());
  on_all_cores(std::ssize(made), [&](int64_t i) {
    is_finite[i] = are_in_range(at(0, made[i]).values) && are_in_range(at(1, made[i]).values) &&
                   std::isfinite(changes_[made[i].index]);
  });
  const auto found = std::ranges::find(is_finite, char{false});
  if (found == is_finite.end()) return;
  throw UserError(
      "the serial program diverged: '" + graph_.value(made[found - is_finite.begin()]).name +
          "' left the range of f32 in step " + std::to_string(step_ + 1),
      "a plan can be compared only with numbers that have a finite rounding error",
      "lower optimizer.learning_rate, or compare fewer steps by --steps", ExitCode::kDiverged);
}

void ReferenceStep::release(const ReferencePieces::Piece& piece) {
  for (ValueId value : pieces_.last_used_in(piece))
    for (Values& values : interpretations_) free_memory(values[value.index]);
  for (ReferenceTensor& tensor : state_) free_memory(tensor);
}

}  // namespace tessera

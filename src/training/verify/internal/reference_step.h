// One step of the reference interpreter: what each value of the serial program should be, and how
// far a right plan may be from it. It advances through the program in pieces, and frees a value
// after its last reader. It knows no ranks and no registers.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "ir/ops/interpreter.h"
#include "training/verify/internal/decisions.h"

namespace tessera {

/// The rounding errors of a run are far below their bounds; the perturbed interpreter uses the
/// bounds, with random signs. Four times its effect allows for less favourable signs.
inline constexpr double kSafety = 4;

/// A run is as far from exact results as one rounding to f16 or bf16 may bring it, while sums of
/// many terms in f32 stay far below their bound. So the effect of one perturbation on a single
/// number says too little.
inline constexpr int kNarrowPerturbations = 4;

/// The ops of a serial program in pieces. The interpretations advance by a piece at a time.
class ReferencePieces {
 public:
  struct Piece {
    int begin = 0, end = 0;  // of the graph's ops
  };

  /// The results of a piece, of one interpretation. A piece of fewer has little to do for threads.
  static constexpr Bytes kPieceBytes{4 << 20};

  /// `graph` outlives it. A piece makes at most `limit` bytes, or is one op. An op that decides
  /// begins a piece, so that its operands are compared before.
  explicit ReferencePieces(const Graph& graph, Bytes limit = kPieceBytes);

  const std::vector<Piece>& pieces() const { return pieces_; }
  /// The op that makes a value; of an input or a variable its first reader, or the first op of the
  /// graph. Registers of the value are compared after that op.
  OpId position(ValueId value) const;
  /// The inputs and variables that a piece reads; the first one also has those that no op reads.
  std::vector<ValueId> state_of(const Piece& piece) const;
  /// The values that nothing reads after a piece, and that it reads or makes.
  std::vector<ValueId> last_used_in(const Piece& piece) const;

  /// The most bytes of all interpretations at a time, with the operands that products copy.
  ///   interpretations  the plain one and the perturbed ones
  Bytes peak(int interpretations) const;

 private:
  const Graph& graph_;
  std::vector<Piece> pieces_;
  std::vector<int> last_reader_;  // by value: an op, or -1
  std::vector<int> first_reader_;
};

class ReferenceStep {
 public:
  /// `graph` and `pieces` outlive it.
  ///   rounded_by_ranks  values of f16 or bf16 of which ranks round partial values
  ReferenceStep(const Graph& graph, const ReferencePieces& pieces,
                std::vector<ValueId> rounded_by_ranks);

  /// The number of interpretations: the plain one and the perturbed ones.
  int interpretations() const { return static_cast<int>(interpretations_.size()); }
  /// What a step takes, roughly.
  double seconds() const;

  /// Begins a step. Its interpretations start from one state, one plain and others perturbed; with
  /// values of f16 or bf16 perturbed in kNarrowPerturbations ways, and where ranks round partial
  /// values in two more, all elements in one direction.
  ///   state  gives inputs and variables by name, each time that a piece reads one
  using State = std::function<ReferenceTensor(const std::string& name)>;
  void begin(State state, int64_t step);

  /// Reads the inputs and variables of the next piece.
  void read_state(const ReferencePieces::Piece& piece);
  /// Interprets the piece. The plain run decides on the operands of the plan that `decisions`
  /// has. The perturbed runs decide by themselves, because the serial run, with which losses are
  /// compared, does so too.
  ///   more_rounding  further errors of values that the piece makes, by name
  ///   throws         UserError (5) when values leave the range of f32
  void run(const ReferencePieces::Piece& piece, const DecisionOperands& decisions,
           const std::map<std::string, double>& more_rounding);

  // Of values that the last piece made, or that a later one reads.

  /// Inputs and variables are there from read_state() of a piece that reads them.
  const ReferenceTensor& expected(ValueId value) const { return at(0, value); }
  const ReferenceTensor& perturbed(ValueId value) const { return at(1, value); }

  /// The largest error of an element of a right plan. Of every value that was made in the step.
  double tolerance(ValueId value) const {
    return kSafety * changes_[static_cast<size_t>(value.index)];
  }

  /// Frees the values that nothing reads after the piece.
  void release(const ReferencePieces::Piece& piece);

 private:
  const ReferenceTensor& at(size_t interpretation, ValueId value) const;
  bool is_state(ValueId value) const { return graph_.value(value).producer.index < 0; }
  void interpret(size_t interpretation, const ReferencePieces::Piece& piece,
                 const InterpreterOptions& options);
  InterpreterOptions options_of(size_t interpretation, const DecisionOperands& decisions);
  void find_changes(const ReferencePieces::Piece& piece, const DecisionOperands& decisions);
  void pass_on_changes(const Op& op, const DecisionOperands& decisions);
  void expect_range(const ReferencePieces::Piece& piece) const;

  using Values = std::vector<ReferenceTensor>;  // by value; freed ones are empty

  const Graph& graph_;
  const ReferencePieces& pieces_;
  std::map<std::string, double> common_share_;  // of the values that ranks round
  State given_;
  int64_t step_ = 0;
  std::vector<Values> interpretations_;
  Values state_;                                  // inputs and variables that the piece reads
  std::map<std::string, double> own_tolerances_;  // of the piece: what its own op may do to a value
  std::vector<double> changes_;  // by value: that, and what the perturbation of all ops did to it
};

}  // namespace tessera

#include "kernels/cpu/narrow.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/tensor/einsum.h"
#include "kernels/cpu/common/narrow_loops.h"
#include "kernels/cpu/common/operands.h"

namespace tessera {
namespace {

bool is_narrow(const TensorType& type) {
  return is_narrow_float(type.dtype);
}

/// The same call on f32.
LocalCall widened(LocalCall call) {
  for (auto* types : {&call.inputs, &call.outputs})
    for (TensorType& type : *types)
      if (is_narrow(type)) type.dtype = DType::kF32;
  return call;
}

// ---- pieces ----

/// By operand: is its leading dim that of the rows of the results, which are computed
/// independently?
struct RowOperands {
  std::vector<bool> inputs, outputs;
};

RowOperands all_operands(const LocalCall& call) {
  return {std::vector<bool>(call.inputs.size(), true),
          std::vector<bool>(call.outputs.size(), true)};
}

/// The first letter of the result leads every operand that has it.
std::optional<RowOperands> rows_of_product(const LocalCall& call) {
  const std::optional<Einsum> einsum = parse_einsum(call.text);
  if (!einsum || einsum->result.empty()) return std::nullopt;
  RowOperands rows{{}, {true}};
  for (const std::string& letters : einsum->operands) {
    const size_t at = letters.find(einsum->result.front());
    if (at != 0 && at != std::string::npos) return std::nullopt;
    rows.inputs.push_back(at == 0);
  }
  return rows;
}

/// Nothing for kernels whose results depend on more than one row of an operand.
std::optional<RowOperands> row_operands(const CatalogueEntry& entry, const LocalCall& call) {
  if (entry.narrow == Narrow::kElementwise || entry.name == "attention" ||
      entry.name == "attention_grad")
    return all_operands(call);
  if (entry.name == "dot_general") return rows_of_product(call);
  if (entry.name == "convolution" || entry.name == "convolution_grad_input")
    return RowOperands{{true, false}, {true}};
  const bool keeps_rows =
      entry.name.starts_with("reduce.") && std::ranges::find(call.ints, 0) == call.ints.end();
  if (keeps_rows && !call.inputs.front().shape.empty()) return all_operands(call);
  return std::nullopt;
}

/// How the kernel of f32 reaches one operand.
struct Port {
  int64_t element_size = 0;  // of the operand
  int64_t row_size = 0;      // elements of a row; 0: every piece has all of it
  int64_t count = 0;         // elements
  int64_t offset = -1;       // in the workspace, where it is converted; -1: the operand itself
  WidenLoop widen = nullptr;
  RoundLoop round = nullptr;

  int64_t elements(int64_t rows) const { return row_size > 0 ? rows * row_size : count; }
  int64_t begin(int64_t row) const { return row * row_size * element_size; }
};

/// The most operands of one side of a call that is converted.
constexpr size_t kMaxOperands = 8;

/// A call as pieces of rows: the calls of f32 for a whole piece and for the last one, and the
/// places of the operands of a piece in the workspace.
class Pieces {
 public:
  Pieces(const CatalogueEntry& entry, const LocalCall& call)
      : piece_(widened(call)), rows_operands_(row_operands(entry, call)) {
    require(call, call.inputs.size() <= kMaxOperands && call.outputs.size() <= kMaxOperands,
            "has at most 8 operands that are converted");
    if (entry.narrow == Narrow::kElementwise) flatten(call);
    if (rows_operands_) rows_ = piece_.outputs.front().shape[0];
    step_ = std::clamp<int64_t>(kNarrowPiece / std::max<int64_t>(longest_row(), 1), 1,
                                std::max<int64_t>(rows_, 1));
    tail_ = piece_;
    cut(piece_, std::min(step_, rows_));
    cut(tail_, rows_ % step_);
    for (size_t i = 0; i < call.inputs.size(); ++i)
      inputs_.push_back(port_of(call.inputs[i], is_row_input(i)));
    for (size_t i = 0; i < call.outputs.size(); ++i)
      outputs_.push_back(port_of(call.outputs[i], is_row_output(i)));
  }

  const LocalCall& piece() const { return piece_; }
  const LocalCall& tail() const { return tail_; }
  int64_t workspace() const { return workspace_; }
  bool has_tail() const { return rows_ % step_ != 0; }

  /// `whole` and `last` are the bound calls.
  void run(const BoundKernel& whole, const BoundKernel& last, const KernelBuffers& buffers) const {
    int64_t row = 0;
    for (; row + step_ <= rows_; row += step_) run_piece(whole, buffers, row, step_);
    if (row < rows_) run_piece(last, buffers, row, rows_ - row);
  }

 private:
  bool is_row_input(size_t i) const { return rows_operands_ && rows_operands_->inputs[i]; }
  bool is_row_output(size_t i) const { return rows_operands_ && rows_operands_->outputs[i]; }

  void flatten(const LocalCall& call) {
    for (auto* types : {&piece_.inputs, &piece_.outputs})
      for (TensorType& type : *types) type.shape = {output_count(call)};
  }

  void cut(LocalCall& call, int64_t rows) const {
    for (size_t i = 0; i < call.inputs.size(); ++i)
      if (is_row_input(i)) call.inputs[i].shape[0] = rows;
    for (size_t i = 0; i < call.outputs.size(); ++i)
      if (is_row_output(i)) call.outputs[i].shape[0] = rows;
  }

  static int64_t row_size(const TensorType& type) {
    return type.shape[0] == 0 ? 1 : element_count(type.shape) / type.shape[0];
  }

  int64_t longest_row() const {
    int64_t longest = 1;
    for (size_t i = 0; i < piece_.inputs.size(); ++i)
      if (is_row_input(i)) longest = std::max(longest, row_size(piece_.inputs[i]));
    for (size_t i = 0; i < piece_.outputs.size(); ++i)
      if (is_row_output(i)) longest = std::max(longest, row_size(piece_.outputs[i]));
    return longest;
  }

  Port port_of(const TensorType& type, bool has_rows) {
    const int64_t count = element_count(type.shape);
    Port port{size_of(type.dtype), 0, count};
    if (has_rows) port.row_size = rows_ == 0 ? 1 : std::max<int64_t>(count / rows_, 1);
    if (!is_narrow(type)) return port;
    port.offset = workspace_;
    workspace_ += align_up(port.elements(std::min(step_, rows_)) * size_of(DType::kF32));
    port.widen = find_widen_loop(type.dtype);
    port.round = find_round_loop(type.dtype);
    return port;
  }

  void run_piece(const BoundKernel& kernel, const KernelBuffers& buffers, int64_t row,
                 int64_t rows) const {
    std::array<const std::byte*, kMaxOperands> in{};
    std::array<std::byte*, kMaxOperands> out{};
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Port& port = inputs_[i];
      in[i] = buffers.inputs[i] + port.begin(row);
      if (port.offset < 0) continue;
      std::byte* place = buffers.workspace + port.offset;
      if (port.row_size > 0 || row == 0)
        port.widen(reinterpret_cast<const uint16_t*>(in[i]), reinterpret_cast<float*>(place),
                   port.elements(rows));
      in[i] = place;
    }
    for (size_t i = 0; i < outputs_.size(); ++i)
      out[i] = outputs_[i].offset < 0 ? buffers.outputs[i] + outputs_[i].begin(row)
                                      : buffers.workspace + outputs_[i].offset;
    kernel.run({std::span(in).first(inputs_.size()), std::span(out).first(outputs_.size()),
                buffers.workspace + workspace_});
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Port& port = outputs_[i];
      if (port.offset < 0) continue;
      port.round(reinterpret_cast<const float*>(out[i]),
                 reinterpret_cast<uint16_t*>(buffers.outputs[i] + port.begin(row)),
                 port.elements(rows));
    }
  }

  LocalCall piece_, tail_;
  std::optional<RowOperands> rows_operands_;  // nullopt: one piece has all of every operand
  int64_t rows_ = 1, step_ = 1;
  std::vector<Port> inputs_, outputs_;
  int64_t workspace_ = 0;
};

BoundKernel bind_pieces(const CatalogueEntry& entry, const LocalCall& call) {
  const Pieces pieces(entry, call);
  if (entry.narrow == Narrow::kElementwise) entry.bind(widened(call));  // refuses what does not fit
  const BoundKernel whole = entry.bind(pieces.piece());
  const BoundKernel last = pieces.has_tail() ? entry.bind(pieces.tail()) : BoundKernel{};
  const auto run = [pieces, whole, last](const KernelBuffers& buffers) {
    pieces.run(whole, last, buffers);
  };
  return {run, Bytes(pieces.workspace()) + std::max(whole.workspace, last.workspace)};
}

}  // namespace

bool has_narrow_operands(const LocalCall& call) {
  return std::ranges::any_of(call.inputs, is_narrow) ||
         std::ranges::any_of(call.outputs, is_narrow);
}

BoundKernel bind_narrow(const CatalogueEntry& entry, const LocalCall& call) {
  return entry.narrow == Narrow::kMoved ? entry.bind(call) : bind_pieces(entry, call);
}

Bytes workspace_of_narrow(const CatalogueEntry& entry, const LocalCall& call) {
  const auto own = [&](const LocalCall& of) {
    return entry.workspace ? entry.workspace(of) : Bytes(0);
  };
  if (entry.narrow == Narrow::kMoved) return own(call);
  const Pieces pieces(entry, call);
  const Bytes last = pieces.has_tail() ? own(pieces.tail()) : Bytes(0);
  return Bytes(pieces.workspace()) + std::max(own(pieces.piece()), last);
}

LocalWork work_of_narrow(const CatalogueEntry& entry, const LocalCall& call) {
  LocalWork work = entry.work(call);
  const bool is_of_products = work.operation == OperationClass::kMatmul ||
                              work.operation == OperationClass::kConvolution ||
                              work.operation == OperationClass::kAttention;
  const auto operand = std::ranges::find_if(call.inputs, is_narrow);
  if (is_of_products && operand != call.inputs.end()) work.dtype = operand->dtype;
  return work;
}

}  // namespace tessera

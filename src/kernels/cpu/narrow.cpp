#include "kernels/cpu/narrow.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <vector>

#include "base/error.h"
#include "kernels/cpu/common/narrow_loops.h"
#include "kernels/cpu/common/operands.h"

namespace tessera {
namespace {

bool is_narrow(const TensorType& type) {
  return is_narrow_float(type.dtype);
}

TensorType widened(const TensorType& type) {
  return {is_narrow(type) ? DType::kF32 : type.dtype, type.shape};
}

/// The same call on f32.
LocalCall widened(LocalCall call) {
  for (TensorType& type : call.inputs) type = widened(type);
  for (TensorType& type : call.outputs) type = widened(type);
  return call;
}

/// No limit of the elements that are converted at a time.
constexpr int64_t kWhole = std::numeric_limits<int64_t>::max();

/// The most operands of one side of a call that is converted.
constexpr size_t kMostOperands = 8;

/// How the kernel of f32 reaches one operand.
struct Port {
  int64_t count = 0;         // elements
  int64_t element_size = 0;  // of the operand
  int64_t offset = -1;       // in the workspace, where it is converted; -1: the operand itself
  WidenLoop widen = nullptr;
  RoundLoop round = nullptr;
};

/// The operands of a call and the place of each in the workspace.
struct Ports {
  std::vector<Port> inputs, outputs;
  int64_t workspace = 0;

  /// `longest`: the most elements of an operand that are converted at a time.
  Ports(const LocalCall& call, int64_t longest) {
    require(call, call.inputs.size() <= kMostOperands && call.outputs.size() <= kMostOperands,
            "has at most 8 operands that are converted");
    for (const TensorType& type : call.inputs) inputs.push_back(port_of(type, longest));
    for (const TensorType& type : call.outputs) outputs.push_back(port_of(type, longest));
  }

 private:
  Port port_of(const TensorType& type, int64_t longest) {
    Port port{element_count(type.shape), size_of(type.dtype)};
    if (!is_narrow(type)) return port;
    port.offset = workspace;
    workspace += align_up(std::min(port.count, longest) * size_of(DType::kF32));
    port.widen = find_widen_loop(type.dtype);
    port.round = find_round_loop(type.dtype);
    return port;
  }
};

/// Runs `twin` on the elements [begin, begin + count) of every operand; count -1: on all.
void run_converted(const BoundKernel& twin, const Ports& ports, const KernelBuffers& buffers,
                   int64_t begin, int64_t count) {
  std::array<const std::byte*, kMostOperands> in{};
  std::array<std::byte*, kMostOperands> out{};
  const auto elements = [count](const Port& port) { return count < 0 ? port.count : count; };
  for (size_t i = 0; i < ports.inputs.size(); ++i) {
    const Port& port = ports.inputs[i];
    in[i] = buffers.inputs[i] + begin * port.element_size;
    if (port.offset < 0) continue;
    std::byte* place = buffers.workspace + port.offset;
    port.widen(reinterpret_cast<const uint16_t*>(in[i]), reinterpret_cast<float*>(place),
               elements(port));
    in[i] = place;
  }
  for (size_t i = 0; i < ports.outputs.size(); ++i) {
    const Port& port = ports.outputs[i];
    out[i] = port.offset < 0 ? buffers.outputs[i] + begin * port.element_size
                             : buffers.workspace + port.offset;
  }
  twin.run({std::span(in).first(ports.inputs.size()), std::span(out).first(ports.outputs.size()),
            buffers.workspace + ports.workspace});
  for (size_t i = 0; i < ports.outputs.size(); ++i) {
    const Port& port = ports.outputs[i];
    if (port.offset < 0) continue;
    port.round(reinterpret_cast<const float*>(out[i]),
               reinterpret_cast<uint16_t*>(buffers.outputs[i] + begin * port.element_size),
               elements(port));
  }
}

BoundKernel bind_converted(const CatalogueEntry& entry, const LocalCall& call) {
  const BoundKernel twin = entry.bind(widened(call));
  const Ports ports(call, kWhole);
  const Bytes workspace = twin.workspace + Bytes(ports.workspace);
  return {
      [twin, ports](const KernelBuffers& buffers) { run_converted(twin, ports, buffers, 0, -1); },
      workspace};
}

/// The call on `count` elements of every operand.
LocalCall piece_of(LocalCall call, int64_t count) {
  for (TensorType& type : call.inputs) type.shape = {count};
  for (TensorType& type : call.outputs) type.shape = {count};
  return call;
}

BoundKernel bind_pieces(const CatalogueEntry& entry, const LocalCall& call) {
  const LocalCall twin = widened(call);
  const BoundKernel checked = entry.bind(twin);  // refuses what does not fit
  const int64_t count = output_count(call);
  const BoundKernel piece = entry.bind(piece_of(twin, std::min(count, kNarrowPiece)));
  const BoundKernel tail = entry.bind(piece_of(twin, count % kNarrowPiece));
  const Ports ports(call, kNarrowPiece);
  const auto run = [piece, tail, ports, count](const KernelBuffers& buffers) {
    int64_t begin = 0;
    for (; begin + kNarrowPiece <= count; begin += kNarrowPiece)
      run_converted(piece, ports, buffers, begin, kNarrowPiece);
    if (begin < count) run_converted(tail, ports, buffers, begin, count - begin);
  };
  return {run, Bytes(ports.workspace)};
}

}  // namespace

bool has_narrow_operands(const LocalCall& call) {
  return std::ranges::any_of(call.inputs, is_narrow) ||
         std::ranges::any_of(call.outputs, is_narrow);
}

BoundKernel bind_narrow(const CatalogueEntry& entry, const LocalCall& call) {
  switch (entry.narrow) {
    case Narrow::kMoved: return entry.bind(call);
    case Narrow::kElementwise: return bind_pieces(entry, call);
    case Narrow::kComputed: return bind_converted(entry, call);
  }
  throw InternalError("unknown kind of kernel");
}

Bytes workspace_of_narrow(const CatalogueEntry& entry, const LocalCall& call) {
  const auto own = [&](const LocalCall& of) {
    return entry.workspace ? entry.workspace(of) : Bytes(0);
  };
  if (entry.narrow == Narrow::kMoved) return own(call);
  const bool in_pieces = entry.narrow == Narrow::kElementwise;
  const Ports ports(call, in_pieces ? kNarrowPiece : kWhole);
  return Bytes(ports.workspace) + (in_pieces ? Bytes(0) : own(widened(call)));
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

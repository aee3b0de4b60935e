#include "compiler/lower/internal/passes/matmul_chunks.h"

#include <algorithm>

#include "compiler/lower/internal/workspace.h"

namespace tessera {
namespace {

const RegisterForm& at(const Program& program, RegisterFormIndex index) {
  return program.registers[index];
}

/// The name of the value that a register holds: what it became follows a space.
std::string value_of(const RegisterForm& reg) {
  return reg.name.text().substr(0, reg.name.text().find(' '));
}

}  // namespace

TensorType largest_type(const RegisterForm& reg) {
  return {reg.type->dtype, reg.attr.largest_shape(reg.type->shape)};
}

std::optional<int64_t> common_blocks(const Program& program, std::span<const ChunkedDim> dims) {
  std::vector<int> finest;
  for (const ChunkedDim& chunked : dims) {
    const RegisterForm& reg = at(program, chunked.reg);
    const DimSharding& dim = reg.attr.dims[chunked.dim];
    if (reg.attr.has_windows() || reg.attr.has_chunks()) return std::nullopt;
    const auto& [shorter, longer] = std::minmax(
        finest, dim.axes, [](const auto& a, const auto& b) { return a.size() < b.size(); });
    if (!std::equal(shorter.begin(), shorter.end(), longer.begin())) return std::nullopt;
    finest = std::vector<int>(longer);
  }
  constexpr int64_t kMaxBlocks = 1 << 20;
  int64_t blocks = 1;
  for (int axis : finest) {
    blocks *= at(program, dims.front().reg).attr.mesh->blocks(axis);
    if (blocks > kMaxBlocks) return std::nullopt;
  }
  return blocks;
}

bool divides_evenly(const Program& program, std::span<const ChunkedDim> dims, int64_t blocks,
                    int64_t count) {
  return std::all_of(dims.begin(), dims.end(), [&](const ChunkedDim& chunked) {
    const RegisterForm& reg = at(program, chunked.reg);
    const int64_t extent = reg.type->shape[chunked.dim];
    return extent > 0 && extent % (blocks * count * reg.attr.dims[chunked.dim].unit) == 0;
  });
}

RegisterFormIndex ChunkMaker::add(RegisterForm reg) {
  if (free_.empty()) {
    return program_.registers.push_back(std::move(reg));
  }
  const RegisterFormIndex index = free_.back();
  free_.pop_back();
  program_.registers[index] = std::move(reg);
  return index;
}

RegisterFormIndex ChunkMaker::chunk_of(RegisterForm reg, int dim, int64_t index) {
  reg.name += " chunk " + std::to_string(index) + " of " + std::to_string(count_);
  reg.type.change([&](TensorType& type) { type.shape[dim] /= count_; });
  reg.chunk = {dim, blocks_, count_, index};
  reg.size = byte_size(largest_type(reg));
  reg.storage = Register::Storage::kArena;
  reg.variable = -1;
  return add(std::move(reg));
}

std::vector<RegisterFormIndex> ChunkMaker::chunks_of(const RegisterForm& whole, int dim) {
  const RegisterForm copy = whole;
  std::vector<RegisterFormIndex> chunks;
  for (int64_t index = 0; index < count_; ++index) chunks.push_back(chunk_of(copy, dim, index));
  return chunks;
}

LocalInt ChunkMaker::blocks_of_rank(const ChunkedDim& whole) const {
  return at(whole.reg).attr.blocks_of_rank(whole.dim, blocks_);
}

Instruction ChunkMaker::take(const ChunkedDim& whole, RegisterFormIndex chunk,
                             const Instruction& like) const {
  KernelForm step{
      KernelCall{"take_chunk", {whole.dim, blocks_of_rank(whole), at(chunk).chunk.index}, {}, ""},
      {whole.reg},
      {chunk},
      {},
      "take " + value_of(at(whole.reg))};
  step.purpose = KernelPurpose::kTakeChunk;
  return in_pass_of(like, std::move(step));
}

Instruction ChunkMaker::join(const std::vector<RegisterFormIndex>& chunks, const ChunkedDim& whole,
                             const Instruction& like) const {
  KernelForm step{KernelCall{"join_chunks", {whole.dim, blocks_of_rank(whole)}, {}, ""},
                  chunks,
                  {whole.reg},
                  {},
                  "join " + value_of(at(whole.reg))};
  step.purpose = KernelPurpose::kJoinChunks;
  return in_pass_of(like, std::move(step));
}

Instruction ChunkMaker::kernel_of(const Instruction& kernel, size_t input, RegisterFormIndex source,
                                  RegisterFormIndex target) {
  Instruction made = kernel;
  KernelForm& step = *made.kernel();
  step.inputs[input] = source;
  step.outputs.front() = target;
  step.workspace = {};
  const MeshPtr& mesh = at(target).attr.mesh;
  if (const Bytes bytes = max_workspace(program_, step, *mesh); bytes > Bytes(0))
    step.workspace = add(workspace_register(step.op, bytes, mesh, at(target).mesh));
  return made;
}

Instruction ChunkMaker::exchange_of(const Instruction& exchange, RegisterFormIndex source,
                                    RegisterFormIndex target) {
  Instruction made = exchange;
  made.exchange()->sources = {source};
  made.exchange()->targets = {target};
  return made;
}

}  // namespace tessera

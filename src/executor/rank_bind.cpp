#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "executor/rank_program.h"
#include "kernels/bind.h"

namespace tessera {
namespace {

/// The reduction whose neutral element a rank holds: it stands away from 0 on an axis on which the
/// exchange starts a Partial.
std::optional<ReduceOp> started_identity(const Exchange& exchange, const Coordinate& coordinate) {
  for (const PartialAxis& partial : exchange.to.partial)
    if (!exchange.from.is_partial_on(partial.axis) && coordinate[partial.axis] != 0)
      return partial.reduce;
  return std::nullopt;
}

}  // namespace

void BoundProgram::wake_all() const {
  for (const auto& rank : ranks)
    if (rank) rank->wake();
}

void BoundProgram::fail(const Failure& failure) {
  network ? network->fail(failure) : stop->fail(failure);
  wake_all();
}

RankProgram::RankProgram(BoundProgram& program, int rank_index)
    : program_(program), index_(rank_index), rank_(program.processes[rank_index]) {
  for (MeshIndex mesh : program.graph->meshes.indices()) {
    coordinates_.push_back(program.graph->meshes[mesh]->coordinate_of(rank_));
    const Bytes size = coordinates_.back() ? program.graph->arenas[mesh] : Bytes(0);
    const bool on_host = size == Bytes(0) || device_of(*program.graph, mesh) == DeviceKind::kHost;
    arenas_.push_back(on_host ? AlignedBuffer(size) : AlignedBuffer());
    device_arenas_.push_back(on_host ? DeviceMemory() : device().allocate(size));
  }
  find_registers();
  make_regions();
}

RankProgram::RankProgram(BoundProgram& program, int rank_index, std::byte* arena)
    : program_(program),
      index_(rank_index),
      rank_(program.processes[rank_index]),
      coordinates_{program.graph->meshes.front()->coordinate_of(rank_)},
      lent_arena_(arena) {
  find_registers();
  make_regions();
}

void RankProgram::find_registers() {
  for (const Register& reg : program_.graph->registers) {
    const MeshIndex mesh = reg.mesh;
    if (!coordinates_[mesh])
      base_.push_back(nullptr);
    else if (reg.storage == Register::Storage::kArena && is_on_device(reg))
      base_.push_back(device_arenas_[mesh].address() + reg.offset);
    else if (reg.storage == Register::Storage::kArena)
      base_.push_back((program_.is_region ? lent_arena_ : arenas_[mesh].data()) + reg.offset);
    else if (program_.is_region)
      base_.push_back(nullptr);  // lent before each run
    else
      base_.push_back(variable_part(reg));
  }
  current_ = base_;
}

std::byte* RankProgram::variable_part(const Register& reg) const {
  const std::string& name = program_.graph->variables[reg.variable].name;
  std::byte* part = program_.variables->part(name, index_);
  const bool is_kept = index_ < static_cast<int>(program_.devices->size()) &&
                       (*program_.devices)[index_] && device().keeps(name);
  ensure(
      is_on_device(reg) || !is_kept,
      "variable '" + name + "' is on a device in an earlier program and on the host in this one");
  return is_on_device(reg) ? device().keep(name, part, byte_size(local_type(reg, coordinate(reg))))
                           : part;
}

/// Also on ranks that are not in the mesh of the op: they are counted, and do nothing.
void RankProgram::make_regions() {
  for (const Task& task : program_.graph->tasks)
    for (const KernelStep& step : task.steps) {
      if (!step.control) continue;
      const auto& bound = program_.regions.at(step.control.get());
      std::byte* workspace = step.workspace.is_none() ? nullptr : base_[step.workspace];
      for (size_t i = 0; i < bound.size(); ++i) {
        auto& rank = bound[i]->ranks[index_];
        rank = std::make_unique<RankProgram>(
            *bound[i], index_, workspace ? workspace + step.control->offsets[i] : nullptr);
        regions_[step.control.get()].push_back(rank.get());
      }
    }
}

Bytes RankProgram::arena_bytes() const {
  Bytes sum = staging_.size();
  for (const auto& [control, regions] : regions_)
    for (const RankProgram* region : regions) sum += region->arena_bytes();
  for (const AlignedBuffer& arena : arenas_) sum += arena.size();
  for (const DeviceMemory& arena : device_arenas_) sum += arena.size();
  return sum;
}

void RankProgram::find_pulls() {
  for (int receiver = 0; receiver < program_.actors->rank_count(); ++receiver)
    if (finds_pulls_of(receiver)) program_.actors->find_pulls(receiver);
  for (const auto& [control, regions] : regions_)
    for (RankProgram* region : regions) region->find_pulls();
}

void RankProgram::bind() {
  for (const auto& [control, regions] : regions_)
    for (RankProgram* region : regions) region->bind();
  plans_.reserve(program_.graph->tasks.size());
  for (TaskId id : program_.graph->tasks.indices()) plans_.push_back(make_plan(id));
  plan_answers();
  make_ahead();
  make_staging();
  mailbox_ = std::make_unique<Mailbox>(inbound_capacity());
  sent_.reserve(outbound_capacity());
  make_streams();
}

RankProgram::Plan RankProgram::make_plan(TaskId id) const {
  const Task& task = program_.task(id);
  Plan plan{Actor(program_.actors->describe(index_, id)),
            {},
            {},
            {},
            program_.actors->overwrites(index_, id)};
  if (!acts_in(task)) return plan;
  for (const KernelStep& step : task.steps) plan.steps.push_back(bind_step(step));
  if (task.kind == Task::Kind::kFeed) plan.transfers = plan_feed(task);
  if (task.kind == Task::Kind::kFetch) plan.transfers = plan_fetch(task);
  if (task.kind == Task::Kind::kExchange) plan.pulling = plan_pulling(id);
  return plan;
}

std::vector<RankProgram::Carried> RankProgram::plan_carried(const KernelStep& step) const {
  std::vector<Carried> carried;
  for (RegisterIndex index : step.outputs) {
    const Register& reg = program_.reg(index);
    const Coordinate& place = coordinate(reg);
    const auto& partial = reg.attr.partial;
    const bool is_addend_of_later = reg.micro_batch.index > 0 && reg.micro_batch.dim < 0;
    const bool is_elsewhere = std::any_of(partial.begin(), partial.end(),
                                          [&](const PartialAxis& p) { return place[p.axis] != 0; });
    carried.push_back(
        {byte_size(local_type(reg, place)).value(), is_addend_of_later || is_elsewhere});
  }
  return carried;
}

RankProgram::Step RankProgram::bind_step(const KernelStep& step) const {
  const auto types = [this](const std::vector<RegisterIndex>& list) {
    std::vector<TensorType> result;
    for (RegisterIndex reg : list)
      result.push_back(local_type(program_.reg(reg), coordinate(program_.reg(reg))));
    return result;
  };
  Step bound{{},
             &step,
             std::vector<const std::byte*>(step.inputs.size()),
             std::vector<std::byte*>(step.outputs.size()),
             {},
             {}};
  const std::vector<TensorType> outputs = types(step.outputs);
  if (step.control) {
    bound.regions = regions_.at(step.control.get());
    bound.carried = plan_carried(step);
    return bound;
  }
  const bool fills_something =
      std::any_of(outputs.begin(), outputs.end(),
                  [](const TensorType& type) { return byte_size(type) > Bytes(0); });
  if (!fills_something) return bound;
  const Coordinate& place = coordinate(program_.reg(step.outputs.front()));
  bound.kernel = bind_kernel(localize(step.call, place, types(step.inputs), outputs),
                             program_.graph->kernels.get());
  const Bytes lent = step.workspace.is_none() ? Bytes(0) : program_.reg(step.workspace).size;
  ensure(bound.kernel.workspace <= lent,
         "kernel " + step.call.kernel + " of op '" + step.op + "' wants a workspace of " +
             to_text(bound.kernel.workspace) + " and is lent " + to_text(lent));
  return bound;
}

std::vector<RankProgram::Transfer> RankProgram::plan_feed(const Task& task) const {
  std::vector<Transfer> transfers;
  for (size_t i = 0; i < program_.graph->inputs.size(); ++i) {
    const RegisterIndex index = program_.graph->inputs[i].value;
    if (std::find(task.outputs.begin(), task.outputs.end(), index) == task.outputs.end()) continue;
    const Register& reg = program_.reg(index);
    for (Piece piece : reg.attr.pieces(reg.type.shape, coordinate(reg))) {
      for (Box* box : {&piece.box, &piece.frame}) {
        if (reg.micro_batch.dim < 0) continue;
        Range& rows = box->ranges[reg.micro_batch.dim];
        rows = {rows.begin + reg.micro_batch.begin, rows.end + reg.micro_batch.begin};
      }
      transfers.push_back(
          {index, i, BoxCombine(reg.type.dtype, ReduceOp::kSum, piece.box, piece.frame)});
      transfers.back().copy.add_source(0, whole_box(program_.graph->inputs[i].type.shape));
      transfers.back().copy.join_dims();
    }
  }
  return transfers;
}

std::vector<RankProgram::Transfer> RankProgram::plan_fetch(const Task& task) const {
  std::vector<Transfer> transfers;
  for (size_t i = 0; i < program_.graph->results.size(); ++i) {
    const RegisterIndex index = program_.graph->results[i].second;
    const Register& reg = program_.reg(index);
    if (std::find(task.inputs.begin(), task.inputs.end(), index) == task.inputs.end()) continue;
    if (!program_.is_region && !is_first_holder(reg.attr, coordinate(reg))) continue;
    for (const Piece& piece : reg.attr.pieces(reg.type.shape, coordinate(reg))) {
      transfers.push_back(
          {index, i,
           BoxCombine(reg.type.dtype, ReduceOp::kSum, piece.box,
                      program_.is_region ? piece.frame : whole_box(reg.type.shape))});
      transfers.back().copy.add_source(0, piece.frame);
      transfers.back().copy.join_dims();
    }
  }
  return transfers;
}

RankProgram::Pulling RankProgram::plan_pulling(TaskId id) const {
  const Exchange& exchange = program_.task(id).exchange;
  const TensorType& type = program_.reg(program_.task(id).inputs[0]).type;
  const Coordinate& place = *coordinates_[program_.task(id).mesh];
  Pulling pulling{program_.actors->senders(id, index_), {}, {}, started_identity(exchange, place)};
  pulling.sources.resize(pulling.senders.size());
  if (program_.network) {
    pulling.collective = plan_collective(id);
    if (!pulling.collective) plan_far(id, pulling);
    return pulling;
  }
  const std::vector<Piece> mine = exchange.to.pieces(type.shape, place);
  for (const Pull& pull : program_.actors->pulls(id, index_)) {
    const int sender = program_.index_of(pull.sender);
    const auto port =
        std::find(pulling.senders.begin(), pulling.senders.end(), sender) - pulling.senders.begin();
    if (pull.first)
      pulling.boxes.emplace_back(type.dtype, pull.reduce, pull.box,
                                 piece_around(mine, pull.box).frame);
    ensure(!pulling.boxes.empty() && pulling.boxes.back().box() == pull.box,
           "the contributions to a box follow its first one");
    const std::vector<Piece> held =
        exchange.from.pieces(type.shape, *exchange.from.mesh->coordinate_of(pull.sender));
    pulling.boxes.back().add_source(static_cast<size_t>(port), piece_around(held, pull.box).frame);
  }
  for (BoxCombine& box : pulling.boxes) box.join_dims();
  return pulling;
}

/// Most messages that can be under way to this rank: a slot is filled again only after its consumer
/// took the message of the last filling.
size_t RankProgram::inbound_capacity() const {
  size_t capacity =
      1 +
      2 * kTaskStreams;  // each stream of a device may have come to two events since the last look
  for (const Plan& plan : plans_) {
    for (const InPort& port : plan.actor.description().inputs)
      capacity += static_cast<size_t>(program_.reg(program_.actors->register_of(port.reg)).slots);
    for (const OutPort& port : plan.actor.description().outputs)
      capacity += static_cast<size_t>(port.slots) * port.consumers.size();
  }
  return capacity;
}

/// Most messages that one act sends.
size_t RankProgram::outbound_capacity() const {
  size_t capacity = 1;
  for (const Plan& plan : plans_) {
    const ActorDescription& description = plan.actor.description();
    size_t count = description.inputs.size();
    for (const OutPort& port : description.outputs) count += port.consumers.size();
    capacity = std::max(capacity, count);
  }
  return capacity;
}

}  // namespace tessera

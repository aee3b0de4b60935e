#include "runtime/executor/internal/task_binder.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "runtime/exchange/group_collective.h"
#include "runtime/exchange/remote_answers.h"
#include "runtime/exchange/remote_receives.h"

namespace tessera {
namespace {

/// The reduction whose identity a rank holds, when the exchange begins a Partial on an axis on
/// which the rank is not at 0.
std::optional<ReduceOp> begun_identity(const Exchange& exchange, const Coordinate& coordinate) {
  for (const PartialAxis& partial : exchange.to.partial)
    if (!exchange.from.is_partial_on(partial.axis) && coordinate[partial.axis] != 0)
      return partial.reduce;
  return std::nullopt;
}

std::vector<Piece> pieces_of(const DistAttr& attr, const TensorType& type, Rank rank) {
  return attr.pieces(type.shape, *attr.mesh->coordinate_of(rank));
}

size_t port_of(const BoundExchange& exchange, size_t part, int sender) {
  const auto& ports = exchange.ports;
  return std::find_if(ports.begin(), ports.end(),
                      [&](const BoundExchange::Port& port) {
                        return port.part == part && port.sender == sender;
                      }) -
         ports.begin();
}

/// The box of part `part` to which the contribution `recv_region` is added; a new one for the first
/// contribution.
BoxCombine& box_of(size_t part, const RecvRegion& recv_region, const TensorType& type,
                   const std::vector<Piece>& mine, std::vector<BoxCombination::PartBox>& boxes) {
  if (recv_region.first)
    boxes.push_back({part, BoxCombine(type.dtype, recv_region.reduce, recv_region.box,
                                      piece_around(mine, recv_region.box).frame)});
  ensure(!boxes.empty() && boxes.back().part == part && boxes.back().box.box() == recv_region.box,
         "the contributions to a box follow its first one");
  return boxes.back().box;
}

}  // namespace

BoundTask TaskBinder::bind(TaskId id) const {
  const Task& task = program_.task(id);
  BoundTask bound{task, id, stream_of(*program_.graph, task),
                  Actor(program_.actors->describe(rank_index_, id)),
                  program_.actors->overwrites(rank_index_, id)};
  if (!memory_.is_in(task.mesh)) return bound;
  for (const KernelStep& step : task.steps) bound.steps.push_back(bind_step(step));
  if (task.kind == Task::Kind::kFeed) bound.transfers = plan_feed(task);
  if (task.kind == Task::Kind::kFetch) bound.transfers = plan_fetch(task);
  if (task.kind == Task::Kind::kExchange) bound.exchange = bind_exchange(id);
  return bound;
}

std::vector<TensorType> TaskBinder::types(const RegisterList& registers) const {
  std::vector<TensorType> result;
  for (RegisterIndex reg : registers) result.push_back(memory_.local_type_of(reg));
  return result;
}

BoundStep TaskBinder::bind_step(const KernelStep& step) const {
  BoundStep bound{.source = step,
                  .kernel = {},
                  .input_registers = step.inputs,
                  .output_registers = step.outputs,
                  .inputs = std::vector<const std::byte*>(step.inputs.size()),
                  .outputs = std::vector<std::byte*>(step.outputs.size()),
                  .regions = {},
                  .carried_values = {}};
  if (step.control) {
    bound.regions = regions_.at(step.control);
    bound.carried_values = plan_carried_values(step);
  } else {
    bound.kernel = bind_kernel(step);
  }
  return bound;
}

BoundKernel TaskBinder::bind_kernel(const KernelStep& step) const {
  const std::vector<TensorType> outputs = types(step.outputs);
  const bool fills_something =
      std::any_of(outputs.begin(), outputs.end(),
                  [](const TensorType& type) { return byte_size(type) > Bytes(0); });
  if (!fills_something) return {};
  const Register& first = program_.reg(step.outputs.front());
  BoundKernel kernel =
      memory_.device(first.mesh)
          .bind(localize(step.call, coordinate(first), types(step.inputs), outputs),
                program_.graph->kernels.get());
  const Bytes lent = step.workspace.is_none() ? Bytes(0) : program_.reg(step.workspace).size;
  ensure(kernel.workspace <= lent, [&] {
    return "kernel " + step.call->kernel + " of op '" + step.op + "' needs a workspace of " +
           to_text(kernel.workspace) + " and is given " + to_text(lent);
  });
  return kernel;
}

std::vector<CarriedValue> TaskBinder::plan_carried_values(const KernelStep& step) const {
  std::vector<CarriedValue> values;
  for (RegisterIndex index : step.outputs) {
    const Register& reg = program_.reg(index);
    const auto& partial = reg.attr.partial;
    const bool is_of_later_micro_batch = reg.micro_batch.index > 0 && reg.micro_batch.dim < 0;
    const bool is_of_other_rank =
        std::any_of(partial.begin(), partial.end(),
                    [&](const PartialAxis& axis) { return coordinate(reg)[axis.axis] != 0; });
    values.push_back(
        {memory_.bytes_of(index).value(), is_of_later_micro_batch || is_of_other_rank});
  }
  return values;
}

std::vector<BoundTransfer> TaskBinder::plan_feed(const Task& task) const {
  std::vector<BoundTransfer> transfers;
  for (size_t i = 0; i < program_.graph->inputs.size(); ++i) {
    const RegisterIndex index = program_.graph->inputs[i].value;
    if (std::find(task.outputs.begin(), task.outputs.end(), index) == task.outputs.end()) continue;
    const Register& reg = program_.reg(index);
    for (Piece piece : reg.attr.pieces(reg.type->shape, coordinate(reg))) {
      for (Box* box : {&piece.box, &piece.frame}) {
        if (reg.micro_batch.dim < 0) continue;
        Range& rows = box->ranges[reg.micro_batch.dim];
        rows = {rows.begin + reg.micro_batch.begin, rows.end + reg.micro_batch.begin};
      }
      transfers.push_back(
          {index, i, BoxCombine(reg.type->dtype, ReduceOp::kSum, piece.box, piece.frame)});
      transfers.back().copy.add_source(0, whole_box(program_.graph->inputs[i].type.shape));
      transfers.back().copy.join_dims();
    }
  }
  return transfers;
}

std::vector<BoundTransfer> TaskBinder::plan_fetch(const Task& task) const {
  std::vector<BoundTransfer> transfers;
  for (size_t i = 0; i < program_.graph->results.size(); ++i) {
    const RegisterIndex index = program_.graph->results[i].second;
    const Register& reg = program_.reg(index);
    if (std::find(task.inputs.begin(), task.inputs.end(), index) == task.inputs.end()) continue;
    if (!program_.is_region && !is_first_holder(reg.attr, coordinate(reg))) continue;
    for (const Piece& piece : reg.attr.pieces(reg.type->shape, coordinate(reg))) {
      transfers.push_back(
          {index, i,
           BoxCombine(reg.type->dtype, ReduceOp::kSum, piece.box,
                      program_.is_region ? piece.frame : whole_box(reg.type->shape))});
      transfers.back().copy.add_source(0, piece.frame);
      transfers.back().copy.join_dims();
    }
  }
  return transfers;
}

BoundExchange TaskBinder::bind_exchange(TaskId id) const {
  const Task& task = program_.task(id);
  BoundExchange exchange;
  for (size_t part = 0; part < task.parts.size(); ++part) {
    for (int sender : program_.actors->senders(id, part, rank_index_))
      exchange.ports.push_back({part, sender});
    if (const auto reduce =
            begun_identity(task.parts[part].exchange, memory_.coordinate(task.mesh)))
      exchange.identities.push_back({part, *reduce});
  }
  exchange.combination.sources.resize(exchange.ports.size());
  exchange.combination.targets.resize(task.parts.size());
  if (program_.network) exchange.backend = make_group_collective(program_, id, rank_index_);
  if (exchange.backend) return exchange;
  if (program_.network)
    plan_remote_receives(id, exchange);
  else
    plan_local_receives(id, exchange);
  for (BoxCombination::PartBox& box : exchange.combination.boxes) box.box.join_dims();
  return exchange;
}

void TaskBinder::plan_local_receives(TaskId id, BoundExchange& exchange) const {
  const Task& task = program_.task(id);
  for (size_t part = 0; part < task.parts.size(); ++part) {
    const Exchange& what = task.parts[part].exchange;
    const TensorType& type = program_.reg(task.inputs[part]).type;
    const std::vector<Piece> mine = pieces_of(what.to, type, program_.ranks[rank_index_]);
    for (const RecvRegion& recv_region : program_.actors->recv_regions(id, part, rank_index_)) {
      const std::vector<Piece> held = pieces_of(what.from, type, recv_region.sender);
      box_of(part, recv_region, type, mine, exchange.combination.boxes)
          .add_source(port_of(exchange, part, program_.index_of(recv_region.sender)),
                      piece_around(held, recv_region.box).frame);
    }
  }
}

/// Adds a connection to each sender in another process.
void TaskBinder::add_lanes(TaskId id, const BoundExchange& exchange,
                           RemoteReceives& receives) const {
  for (const auto& [part, sender] : exchange.ports)
    if (!program_.is_here(sender) && !receives.has_lane(sender))
      receives.add_lane(program_.process_of[sender],
                        {program_.number, program_.actors->actor_id(rank_index_, id), sender,
                         program_.network->fetch().new_tags(2), 0});
}

void TaskBinder::plan_remote_receives(TaskId id, BoundExchange& exchange) const {
  auto receives = std::make_unique<RemoteReceives>(program_.network->fetch());
  add_lanes(id, exchange, *receives);
  size_t source = 0;  // of the next staged contribution
  for (const RemoteRecvRegion& travels : remote_recv_regions(program_, id, rank_index_)) {
    if (travels.recv_region.first) source = exchange.ports.size();
    plan_receive(program_.task(id), travels, exchange, *receives, source);
  }
  receives->finish_plan(exchange.combination.boxes.size());
  if (receives->receives_anything()) exchange.backend = std::move(receives);
}

/// `source` is the number of the next staged source of the box, and is counted up.
void TaskBinder::plan_receive(const Task& task, const RemoteRecvRegion& travels,
                              BoundExchange& exchange, RemoteReceives& receives,
                              size_t& source) const {
  const auto& [part, recv_region, in_place, batch] = travels;
  const Exchange& what = task.parts[part].exchange;
  const TensorType& type = program_.reg(task.inputs[part]).type;
  const std::vector<Piece> mine = pieces_of(what.to, type, program_.ranks[rank_index_]);
  const int sender = program_.index_of(recv_region.sender);
  const int64_t bytes = element_count(recv_region.box.shape()) * size_of(type.dtype);
  if (in_place) {
    const Box& frame = piece_around(mine, recv_region.box).frame;
    receives.add_in_place(sender, part, *dense_offset(recv_region.box, frame) * size_of(type.dtype),
                          bytes);
    return;
  }
  auto& [boxes, sources, targets] = exchange.combination;
  BoxCombine& box = box_of(part, recv_region, type, mine, boxes);
  if (program_.is_here(sender)) {
    const std::vector<Piece> held = pieces_of(what.from, type, recv_region.sender);
    box.add_source(port_of(exchange, part, sender), piece_around(held, recv_region.box).frame);
  } else {
    receives.add_staged(sender, batch, boxes.size() - 1, source, bytes);
    box.add_source(source++, recv_region.box);
    sources.resize(std::max(sources.size(), source));
  }
}

}  // namespace tessera

#include "compiler/placement_check/internal/transfer_check.h"

#include "compiler/placement_check/internal/exchange_check.h"
#include "compiler/placement_check/internal/refuse.h"
#include "sharding/reshard/recv_regions.h"

namespace tessera {

void TransferCheck::check_exchange(const Task& task) {
  for (size_t part = 0; part < task.parts.size(); ++part) check_part(task, part);
}

void TransferCheck::check_part(const Task& task, size_t part) {
  const Exchange& exchange = task.parts[part].exchange;
  const RegisterIndex source = task.inputs[part], target = task.outputs[part];
  const Register &from = program_.reg(source), &to = program_.reg(target);
  const MicroBatchAxis& axis = program_.micro_batch_axis();
  const std::string what = "exchange '" + task.name + "' ";
  if (placements_.at(source).value.index < 0)
    refuse(what + "reads " + program_.quoted(source) + " before anything fills it");
  if (!(exchange.from == from.attr))
    refuse(what + "takes " + program_.quoted(source) + " for " + to_text(exchange.from) +
           ", and it is " + to_text(from.attr));
  if (!(exchange.to == to.attr))
    refuse(what + "makes " + to_text(exchange.to) + ", and " + program_.quoted(target) +
           " is declared " + to_text(to.attr));
  if (from.type != to.type || from.micro_batch != to.micro_batch)
    refuse(what + "fills the register of one micro-batch with another");
  check_ends_and_recv_regions(task, part);
  SymbolicPlacement placement = placements_.at(source);
  DistAttr attr = axis.declared_dims(to);
  attr.partial = axis.declared_partial(to);
  if (axis.is_partial_in(placement.attr))
    attr.partial.insert(attr.partial.begin(), MicroBatchAxis::partial_axis(placement.attr));
  placement.attr = std::move(attr);
  placements_.fill(target, std::move(placement));
}

void TransferCheck::check_ends_and_recv_regions(const Task& task, size_t part) {
  const Exchange& exchange = task.parts[part].exchange;
  const Register& source = program_.reg(task.inputs[part]);
  const Shape& shape = source.type->shape;
  if (!checked_exchanges_
           .insert(to_text(shape) + to_text(exchange.from) + std::to_string(source.mesh.value()) +
                   to_text(exchange.to) + std::to_string(task.mesh.value()))
           .second)
    return;
  check_ends(exchange);
  for (const Coordinate& coordinate : program_.coordinates(task.mesh)) {
    const Rank receiver = exchange.to.mesh->rank_at(coordinate);
    check_recv_regions(shape, exchange, receiver, recv_regions(shape, exchange, receiver));
  }
}

void TransferCheck::check_copy(const KernelStep& step) {
  if (step.call->kernel != "copy" || step.inputs.size() != 1 || step.outputs.size() != 1)
    refuse("'" + step.op + "' copies one to one");
  placements_.fill_from(step.inputs[0], step.outputs[0], placements_.at(step.inputs[0]));
}

void TransferCheck::check_copy(const Task& task) {
  const RegisterIndex source = task.inputs.front();
  placements_.fill_from(source, task.outputs.front(), placements_.at(source));
}

}  // namespace tessera

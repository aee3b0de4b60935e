#include "compiler/lower/internal/value_registers.h"

#include <algorithm>

#include "base/error.h"
#include "sharding/reshard/available_placements.h"

namespace tessera {

ValueRegisters::ValueRegisters(const Graph& graph, const ShardedGraph& sharded,
                               const StageMeshes& stages, const ReshardOptions& reshard,
                               bool in_region, Program& program)
    : graph_(graph),
      sharded_(sharded),
      stages_(stages),
      plans_(reshard),
      in_region_(in_region),
      program_(program),
      holders_(graph.values().size()) {}

std::string ValueRegisters::number_of(int micro_batch) const {
  return in_region_ ? std::to_string(micro_batch) : std::string(1, kMicroBatchMark);
}

/// " in backward 2", for the names of copies that live for one pass.
std::string ValueRegisters::pass_suffix(const ValueReader& reader) const {
  return " in " + std::string(to_text(reader.role)) +
         (reader.micro_batch < 0 ? "" : " " + number_of(reader.micro_batch));
}

RegisterFormIndex ValueRegisters::add_register(const std::string& name, const TensorType& type,
                                               const DistAttr& attr, MicroBatch micro_batch) {
  RegisterForm reg;
  reg.name = name + (micro_batch.index >= 0 ? " #" + number_of(micro_batch.index) : "");
  reg.type = type;
  reg.attr = attr;
  reg.micro_batch = micro_batch;
  for (MeshIndex i : program_.meshes.indices())
    if (program_.meshes[i] == attr.mesh) reg.mesh = i;
  reg.size = byte_size({type.dtype, attr.largest_shape(type.shape)});
  return program_.registers.push_back(std::move(reg));
}

MicroBatch ValueRegisters::part_of(const TensorType& whole, const MicroBatchPlacement& placed,
                                   int index) const {
  if (!placed.by_micro_batch) return {};
  if (placed.dim < 0) return {index, -1, 0};
  return {index, placed.dim,
          balanced_part(whole.shape[placed.dim], stages_.micro_batches(), index).begin};
}

RegisterFormIndex ValueRegisters::add_value(ValueId value, const MicroBatchPlacement& placed,
                                            int micro_batch) {
  const TensorType& whole = graph_.type(value);
  const MicroBatch part = part_of(whole, placed, micro_batch);
  const RegisterFormIndex reg =
      add_register(graph_.value(value).name,
                   of_one_micro_batch(whole, placed, stages_.micro_batches()), placed.attr, part);
  add_holder(value, reg, part.index);
  return reg;
}

void ValueRegisters::add_holder(ValueId value, RegisterFormIndex reg, int micro_batch) {
  holders(value, micro_batch).push_back({reg});
}

std::vector<ValueRegisters::Holder>& ValueRegisters::holders(ValueId value, int micro_batch) {
  auto& lists = holders_[value.index];
  const size_t place = micro_batch + 1;
  if (place >= lists.size()) lists.resize(place + 1);
  return lists[place];
}

bool ValueRegisters::is_on(ValueId value, const MeshPtr& mesh) const {
  const auto is_on_mesh = [&](const Holder& holder) { return at(holder.reg).attr.mesh == mesh; };
  const auto& lists = holders_[value.index];
  return std::any_of(lists.begin(), lists.end(), [&](const std::vector<Holder>& list) {
    return std::any_of(list.begin(), list.end(), is_on_mesh);
  });
}

void ValueRegisters::add_input(ValueId input, const MicroBatchPlacement& placed,
                               const std::string& suffix) {
  fed_.emplace(input.index, placed.attr.mesh);
  const RegisterFormIndex reg = add_value(input, placed, kEachMicroBatch);
  program_.registers[reg].name += suffix;
  program_.inputs.push_back({graph_.value(input).name, reg, graph_.type(input)});
}

/// An input is fed on every mesh that reads it, so that it is never sent between meshes.
void ValueRegisters::feed_on_mesh_of(ValueId input, MicroBatchPlacement wanted) {
  wanted.attr.partial.clear();
  for (DimSharding& dim : wanted.attr.dims) {
    dim.windows.clear();  // other readers may need what this window leaves out
    if (dim.chunks > 1) dim = {dim.axes};
  }
  const MeshIndex mesh(
      static_cast<int>(std::find(program_.meshes.begin(), program_.meshes.end(), wanted.attr.mesh) -
                       program_.meshes.begin()));
  add_input(input, wanted, " on " + stages_.name_of(mesh));
}

RegisterFormIndex ValueRegisters::get(ValueId value, const MicroBatchPlacement& wanted,
                                      const ValueReader& reader) {
  const bool is_fed = graph_.is_input(value) && !in_region_;
  if (is_fed && !fed_.contains({value.index, wanted.attr.mesh})) feed_on_mesh_of(value, wanted);
  const std::vector<RegisterFormIndex> sources = sources_of(value, wanted, reader);
  if (sources.empty()) {
    const RegisterFormIndex whole = get_without_partial(value, wanted, reader);
    return reshard(value, whole, wanted.attr, reader);
  }
  RegisterFormIndex source = cheapest_source(sources, wanted.attr);
  if (at(source).attr == wanted.attr) return source;
  if (const std::optional<DistAttr> first = choose_intermediate(value, wanted, reader, sources)) {
    MicroBatchPlacement made = wanted;
    made.attr = *first;
    reshard(value, cheapest_source(sources_of(value, made, reader), *first), *first, reader);
    source = cheapest_source(sources_of(value, wanted, reader), wanted.attr);
  }
  return reshard(value, source, wanted.attr, reader);
}

std::vector<RegisterFormIndex> ValueRegisters::sources_of(ValueId value,
                                                          const MicroBatchPlacement& wanted,
                                                          const ValueReader& reader) {
  const int micro_batch = wanted.by_micro_batch ? reader.micro_batch : -1;
  const Pass pass{reader.role, reader.micro_batch, reader.stage};
  std::vector<RegisterFormIndex> sources;
  for (const Holder& holder : holders(value, micro_batch)) {
    const RegisterForm& reg = at(holder.reg);
    // Micro-batches of another dim have other elements.
    if (holder.only && *holder.only != pass) continue;
    if (micro_batch >= 0 && reg.micro_batch.dim != wanted.dim) continue;
    if (is_reshardable(reg.type->shape, reg.attr, wanted.attr)) sources.push_back(holder.reg);
  }
  return sources;
}

std::vector<const DistAttr*> ValueRegisters::placements_of(
    const std::vector<RegisterFormIndex>& sources) const {
  std::vector<const DistAttr*> held;
  for (RegisterFormIndex source : sources) held.push_back(&at(source).attr);
  return held;
}

RegisterFormIndex ValueRegisters::cheapest_source(const std::vector<RegisterFormIndex>& sources,
                                                  const DistAttr& wanted) {
  const std::vector<const DistAttr*> held = placements_of(sources);
  return sources[tessera::cheapest_source(plans_, at(sources.front()).type, held, wanted)];
}

RegisterFormIndex ValueRegisters::reshard(ValueId value, RegisterFormIndex source,
                                          const DistAttr& wanted, const ValueReader& reader) {
  const RegisterForm from = at(source);
  for (const Exchange& exchange : plans_.plan(from.type, from.attr, wanted).exchanges)
    source = exchange_into(value, source, exchange, reader);
  return source;
}

std::vector<DistAttr> ValueRegisters::needs_in_pass(ValueId value,
                                                    const MicroBatchPlacement& wanted,
                                                    const ValueReader& reader) const {
  std::vector<DistAttr> needs;
  for (OpId user : graph_.value(value).users) {
    const Op& op = graph_.op(user);
    if (op.role != reader.role) continue;
    const OpView op_view = view(graph_, op);
    for (int i = 0; i < std::ssize(op.inputs); ++i) {
      if (op.inputs[i] != value) continue;
      MicroBatchPlacement need =
          stages_.placed(input_attr(op_view, sharded_.rules[user.index], sharded_.at(user), i));
      if (need.attr.mesh == wanted.attr.mesh && need.by_micro_batch == wanted.by_micro_batch &&
          need.dim == wanted.dim && std::ranges::count(needs, need.attr) == 0)
        needs.push_back(std::move(need.attr));
    }
  }
  return needs;
}

std::optional<DistAttr> ValueRegisters::choose_intermediate(
    ValueId value, const MicroBatchPlacement& wanted, const ValueReader& reader,
    const std::vector<RegisterFormIndex>& sources) {
  const bool lives_for_a_pass = sharded_.replica_lifetime(value) == ReplicaLifetime::kPass;
  if (in_region_ || lives_for_a_pass || graph_.value(value).users.size() < 2) return std::nullopt;
  return tessera::choose_intermediate(plans_, at(sources.front()).type, placements_of(sources),
                                      wanted.attr, needs_in_pass(value, wanted, reader));
}

/// A mark makes a partial value of a whole tensor: the first rank of the axis gets the tensor, the
/// others the identity of the reduction.
RegisterFormIndex ValueRegisters::get_without_partial(ValueId value, MicroBatchPlacement wanted,
                                                      const ValueReader& reader) {
  const std::string& name = graph_.value(value).name;
  if (wanted.attr.partial.empty() && in_region_)
    throw UserError(
        "'" + name + "' inside a While or an If is needed for the whole batch at once (" +
            reader.reason() + ")",
        "the region is run for each micro-batch by itself",
        "use one micro-batch, or let '" + name + "' not depend on all rows of the batch",
        ExitCode::kBadConfig);
  if (wanted.attr.partial.empty())
    throw UserError(
        "'" + name + "' is needed " +
            (wanted.by_micro_batch ? "by micro-batch" : "for the whole batch at once") + " (" +
            reader.reason() + ")",
        wanted.by_micro_batch
            ? "it is made once a step, or its micro-batches divide another dim"
            : "each micro-batch makes a part of it, and they are not put together",
        "use one micro-batch, or remove the mark that keeps this tensor from following the batch",
        ExitCode::kBadConfig);
  wanted.attr.partial.clear();
  return get(value, wanted, reader);
}

RegisterFormIndex ValueRegisters::exchange_into(ValueId value, RegisterFormIndex source,
                                                const Exchange& exchange,
                                                const ValueReader& reader) {
  const std::string& name = graph_.value(value).name;
  const RegisterForm from = at(source);
  const RegisterFormIndex target =
      add_register(name + " " + to_text(exchange.to), from.type, exchange.to, from.micro_batch);
  RegisterForm& made = program_.registers[target];
  if (program_.meshes.size() > 1) made.name += " on " + stages_.name_of(made.mesh);
  const bool by_pass = sharded_.replica_lifetime(value) == ReplicaLifetime::kPass;
  if (by_pass) made.name += pass_suffix(reader);
  add_holder(value, target, from.micro_batch.index);
  if (by_pass)
    holders(value, from.micro_batch.index).back().only =
        Pass{reader.role, reader.micro_batch, reader.stage};
  Instruction instruction;
  instruction.role = reader.role;
  instruction.micro_batch = by_pass ? reader.micro_batch : from.micro_batch.index;
  instruction.stage = reader.stage;
  instruction.mesh = made.mesh;
  instruction.step =
      ExchangeStep(exchange, source, target,
                   "'" + name + "' is " + to_text(exchange.from) + ", " + reader.reason());
  program_.instructions.push_back(std::move(instruction));
  return target;
}

}  // namespace tessera

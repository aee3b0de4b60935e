// The registers of a program that hold the values of the serial graph: as they were computed, and
// as they were resharded to.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/lower/internal/program.h"
#include "compiler/lower/internal/stage_meshes.h"
#include "sharding/reshard/reshard_plans.h"

namespace tessera {

/// The instruction, variable or result that needs a value.
struct ValueReader {
  int micro_batch = -1;  // -1: once a step; kEachMicroBatch, or in a region its micro-batch
  Role role = Role::kForward;
  StageIndex stage;
  std::function<std::string()> reason;  // "op 'y' needs [@dp, *]"
};

/// threads  one caller at a time
class ValueRegisters {
 public:
  /// in_region  `graph` is a region of an op, which is run for each micro-batch by itself and is
  ///            lowered for one of them; otherwise `program` becomes a rolled one
  ValueRegisters(const Graph& graph, const ShardedGraph& sharded, const StageMeshes& stages,
                 const ReshardOptions& reshard, bool in_region, Program& program);

  /// A register with the next free index. Its name gets the number of the micro-batch, or a mark.
  RegisterFormIndex add_register(const std::string& name, const TensorType& type,
                                 const DistAttr& attr, MicroBatch micro_batch = {});
  /// The register of `value` as `placed` says, of one micro-batch or of all.
  RegisterFormIndex add_value(ValueId value, const MicroBatchPlacement& placed, int micro_batch);
  /// `reg` holds `value` too, of one micro-batch or (-1) once a step.
  void add_holder(ValueId value, RegisterFormIndex reg, int micro_batch);
  /// An input of the program with this placement.
  ///   suffix  of the names of its registers
  void add_input(ValueId input, const MicroBatchPlacement& placed, const std::string& suffix = "");

  /// Does a register hold `value`, or a part of it, on this mesh?
  bool is_on(ValueId value, const MeshPtr& mesh) const;

  /// The register that holds `value` as `wanted`: there is one already, or exchanges make it from
  /// the register from which they take least. Another placement that the pass needs is made first
  /// where all take less so.
  ///   throws  UserError (78) when a value of one micro-batch is needed of all, or the reverse
  RegisterFormIndex get(ValueId value, const MicroBatchPlacement& wanted,
                        const ValueReader& reader);

 private:
  /// A pass of a stage: the only readers of a copy that lives for a pass.
  struct Pass {
    Role role;
    int micro_batch;
    StageIndex stage;

    bool operator==(const Pass&) const = default;
  };
  struct Holder {
    RegisterFormIndex reg;
    std::optional<Pass> only = {};
  };

  const RegisterForm& at(RegisterFormIndex reg) const { return program_.registers[reg]; }
  /// In a name.
  std::string number_of(int micro_batch) const;
  std::string pass_suffix(const ValueReader& reader) const;
  MicroBatch part_of(const TensorType& whole, const MicroBatchPlacement& placed, int index) const;
  /// The registers that hold `value`, of one micro-batch or (-1) once a step.
  std::vector<Holder>& holders(ValueId value, int micro_batch);
  void feed_on_mesh_of(ValueId input, MicroBatchPlacement wanted);
  /// The registers from which exchanges can make the value as `wanted` for the reader.
  std::vector<RegisterFormIndex> sources_of(ValueId value, const MicroBatchPlacement& wanted,
                                            const ValueReader& reader);
  std::vector<const DistAttr*> placements_of(const std::vector<RegisterFormIndex>& sources) const;
  /// The cheapest_source() of one source at least.
  RegisterFormIndex cheapest_source(const std::vector<RegisterFormIndex>& sources,
                                    const DistAttr& wanted);
  RegisterFormIndex reshard(ValueId value, RegisterFormIndex source, const DistAttr& wanted,
                            const ValueReader& reader);
  /// The placements in which ops of the pass of `reader` read the value on the mesh of `wanted`,
  /// each once.
  std::vector<DistAttr> needs_in_pass(ValueId value, const MicroBatchPlacement& wanted,
                                      const ValueReader& reader) const;
  /// Of the other placements that the pass needs, the one that is made before `wanted`.
  std::optional<DistAttr> choose_intermediate(ValueId value, const MicroBatchPlacement& wanted,
                                              const ValueReader& reader,
                                              const std::vector<RegisterFormIndex>& sources);
  RegisterFormIndex get_without_partial(ValueId value, MicroBatchPlacement wanted,
                                        const ValueReader& reader);
  RegisterFormIndex exchange_into(ValueId value, RegisterFormIndex source, const Exchange& exchange,
                                  const ValueReader& reader);

  const Graph& graph_;
  const ShardedGraph& sharded_;
  const StageMeshes& stages_;
  ReshardPlans plans_;
  const bool in_region_;
  Program& program_;
  /// By value, and by micro-batch after those once a step: as computed first, then as resharded.
  std::vector<std::vector<std::vector<Holder>>> holders_;
  /// The inputs, and the meshes on which each is fed.
  std::set<std::pair<int, MeshPtr>> fed_;
};

}  // namespace tessera

// The placements of a plan as torch.distributed.tensor has them, for its own modules.
#pragma once

#include <filesystem>

#include "base/files/document.h"
#include "ir/graph/graph.h"
#include "ir/models/model.h"
#include "sharding/propagation/sharded_graph.h"

namespace tessera {

/// A table with
///   meshes       of each stage: axes, shape, ranks
///   parameters   by name: its mesh and a placement by axis, "Shard(0)" or "Replicate()"; by the
///                names and in the layout of transformers where `path` is a config.json or a folder
///                with one, else by our own
///   inputs       the same
///   constraints  of values of the forward that ranks hold in parts, by our names; DTensor chooses
///                placements by itself where none is set
///   notes        parameters and inputs that are copies there, since their parts are of unequal
///                size, which torch.chunk makes otherwise, or divided as DTensor cannot say
///   throws  UserError (65) as hugging_face_names_of
///   source  torch.distributed.tensor, placement_types.py (PyTorch 2.11): of several axes that
///           divide a dim, the first one is the outermost
Document dtensor_placements(const Graph& graph, const ShardedGraph& sharded,
                            const std::filesystem::path& path, const ModelConfig& model);

}  // namespace tessera

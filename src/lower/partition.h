// Partition: from a sharded serial graph to one program for every rank of the mesh.
#pragma once

#include "lower/program.h"
#include "shard/propagate.h"

namespace tessera {

/// Makes every op local and inserts the exchanges where producer and consumer differ.
///
///   requires  sharded = propagate(graph, ...)
///   ensures   each op has its kernel call with its factors divided; a value is resharded to one
///   placement once, however many ops want it,
///             from that of its registers from which the fewest bytes travel; the next value of a
///             variable lies as the variable does
///   meshes    of ranks; with several micro-batches `sharded` is on the same meshes with the
///   axis of time in front time      what micro-batches divide is made once for each, with the
///   numbers of its kernels moved there; addends over time are added up
///             as they are made
///   leaves    the order of micro-batches, arena offsets and tasks to the next stages
///   throws    UserError (78) when an op needs the whole batch at once, or one micro-batch of what
///   is made once a step
Program partition(const Graph& graph, const ShardedGraph& sharded, const Meshes& meshes,
                  int64_t micro_batches, const ReshardOptions& reshard = {});
/// With one micro-batch.
Program partition(const Graph& graph, const ShardedGraph& sharded);

/// A region of an op (lower/region.h): its inputs are variables, which the op keeps.
struct RegionFrame {
  int64_t micro_batches = 1;
  int micro_batch = -1;  // the one in which it is run; -1: once a step
  bool carries =
      false;  // its outputs are the next values of its first inputs; else they are results
  RegionEnds ends;
  ReshardOptions reshard = {};
};
Program partition_region(const Graph& region, const ShardedGraph& sharded, const Meshes& meshes,
                         const RegionFrame& frame);

}  // namespace tessera

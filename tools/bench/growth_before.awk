# Costs of a rank in a job of p ranks before agreements used trees (commit 124f4dd). The costs are counted from the code
# of that commit. As in the rows of scale_growth, messages are counted in both directions. An agreement sent a message
# to every other rank. Each function returns "" if the cost is not known.
#
#   mesh and groups         all ranks agreed on 13 groups, with 24 bytes for each group
#   control of a step       8 agreements: a barrier, 6 reductions of 8 bytes, and an all-gather of 20 numbers of each rank
#   comparison of replicas  one reduction, and an all-gather of two digests of each of 1000 parameters and their number

function messages_before(activity, p) {
  if (activity == "mesh and groups") return 13 * 2 * (p - 1)
  if (activity == "control of a step") return 8 * 2 * (p - 1)
  if (activity == "comparison of replicas") return 2 * 2 * (p - 1)
  return ""
}

function bytes_before(activity, p) {
  if (activity == "mesh and groups") return 13 * 2 * 24 * (p - 1)
  if (activity == "control of a step") return 2 * (6 * 8 + 160) * (p - 1)
  if (activity == "comparison of replicas") return 2 * (8 + 8 * 2001) * (p - 1)
  return ""
}

# Returns the bytes of the gathered digests of all ranks.
function memory_before(activity, p) {
  if (activity == "comparison of replicas") return 8 * 2001 * p
  return ""
}

# Returns times measured at that commit, among 16,384 ranks on one core. An agreement took 50 ms of searching in lists,
# and the group of a parameter took 0.29 ms.
function seconds_before(activity, p) {
  if (p != 16384) return ""
  if (activity == "control of a step") return 8 * 0.05
  if (activity == "groups of parameters") return 1000 * 0.00029
  return ""
}

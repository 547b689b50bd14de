# median(list, count): returns the median of list[1..count], or an empty text for none. Sorts by insertion, because
# lists are short.
function median(list, count,    i, j, x) {
  if (!count) return ""
  for (i = 2; i <= count; i++) {
    x = list[i]
    for (j = i - 1; j >= 1 && list[j] > x; j--) list[j + 1] = list[j]
    list[j + 1] = x
  }
  return (list[int((count + 1) / 2)] + list[int(count / 2) + 1]) / 2
}

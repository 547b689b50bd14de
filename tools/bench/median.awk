# quantile(list, count, share): returns the quantile of list[1..count] for `share`, interpolated linearly. Returns the
# minimum for share 0, the maximum for share 1, and an empty text if there are no values. Sorts by insertion, because
# lists are short.
function quantile(list, count, share,    i, j, x, place) {
  if (!count) return ""
  for (i = 2; i <= count; i++) {
    x = list[i]
    for (j = i - 1; j >= 1 && list[j] > x; j--) list[j + 1] = list[j]
    list[j + 1] = x
  }
  place = 1 + share * (count - 1)
  i = int(place)
  return i == count ? list[i] : list[i] + (place - i) * (list[i + 1] - list[i])
}

# median(list, count): returns the median of list[1..count], or an empty text if there are no values.
function median(list, count) { return quantile(list, count, 0.5) }

package check

import (
	"fmt"
	"maps"
	"slices"

	"likewise/storage"
)

// Counts is everything that is said of how often a video is liked and disliked,
// at a moment when nothing is under way.
type Counts struct {
	Video storage.VideoID
	// Shown is what each region's front door answers.
	Shown map[string]storage.Tally
	// Stored is the sum of the counter shards, Rows that of the reaction rows.
	Stored, Rows storage.Tally
}

// Count checks that all counts of each video are the same, and none negative.
func Count(videos []Counts) []Violation {
	var violations []Violation
	for _, c := range videos {
		violations = append(violations, c.differ("stored", c.Stored)...)
		for _, region := range slices.Sorted(maps.Keys(c.Shown)) {
			violations = append(violations, c.differ("shown in "+region, c.Shown[region])...)
		}
	}
	return violations
}

func (c Counts) differ(who string, t storage.Tally) []Violation {
	var violations []Violation
	report := func(rule Rule, what string) {
		violations = append(violations, Violation{Rule: rule, Where: string(c.Video), What: what})
	}
	if t != c.Rows {
		report(Drift, fmt.Sprintf("%s: %s; the rows say %s", who, tally(t), tally(c.Rows)))
	}
	if t.Likes < 0 || t.Dislikes < 0 {
		report(Negative, fmt.Sprintf("%s: %s", who, tally(t)))
	}
	return violations
}

func tally(t storage.Tally) string {
	return fmt.Sprintf("%d likes, %d dislikes", t.Likes, t.Dislikes)
}

"""What people look at: tables, pictures, the one-page report, trackers. Reads run folders; runs nothing."""

-- compatible_from: 0007
-- Whose a worker's session is: only that account may claim, beat, report and leave for it.

-- Null: there were no accounts when it was opened, or its worker uses the store directly.
ALTER TABLE session ADD COLUMN account text;
